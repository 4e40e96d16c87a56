// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// TestConn writes to a peer that does not read.
func TestConn(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := newConn(ours, time.Millisecond)
	defer c.Close()
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that nobody takes ends with %v", err)
	}

	go io.Copy(io.Discard, theirs)
	c.idle = time.Hour
	for range 3 {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
	for _, set := range []func(time.Time) error{c.SetWriteDeadline, c.SetDeadline} {
		set(time.Now())
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a write after its deadline ends with %v", err)
		}
		set(time.Time{})
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}
}
