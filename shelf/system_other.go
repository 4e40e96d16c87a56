// SPDX-License-Identifier: Apache-2.0

//go:build !(linux || darwin || freebsd)

package shelf

import (
	"errors"
	"os"
)

// Without groups and locks nothing could be shown to one program only, and nothing be swept safely.
const supported = false

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
