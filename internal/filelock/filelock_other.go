// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd)

package filelock

import (
	"errors"
	"os"
)

// Supported tells whether the system has such locks.
const Supported = false

// Try takes no lock here.
func Try(*os.File) (bool, error) { return false, errors.ErrUnsupported }
