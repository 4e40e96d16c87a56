// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package evidence

import "os"

// syncData makes the octets of a file durable.
func syncData(f *os.File) error { return f.Sync() }
