// SPDX-License-Identifier: Apache-2.0

//go:build darwin || freebsd

package spool

import (
	"os"
	"testing"
)

func asOrdinaryUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root is not stopped by permissions")
	}
}
