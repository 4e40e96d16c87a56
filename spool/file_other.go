// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package spool

import (
	"errors"
	"os"
)

// systemFile is a diskFile of the system, whose page cache is left to it.
type systemFile struct{ *os.File }

func (systemFile) allocate(int64, int64) error { return errors.ErrUnsupported }
func (systemFile) flush(int64, int64) error    { return nil }
func (systemFile) settle(int64, int64) error   { return nil }
func (systemFile) drop(int64, int64)           {}

func sequential(*os.File)      {}
func onMemory(*os.File) string { return "" }
func memory() int64            { return 0 }
