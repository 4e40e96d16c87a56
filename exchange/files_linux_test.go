// SPDX-License-Identifier: Apache-2.0

package exchange_test

import (
	"bytes"
	"os"
	"syscall"
	"testing"

	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/internal/testbed"
)

// TestFilesFillTheDisk has attachments that do not all fit.
func TestFilesFillTheDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small disk; TestFailures of package shelf has the same without one")
	}
	f := newFiles(t, testbed.Options{Receive: func(s *exchange.SecurityServer) {
		for _, service := range s.Local.Services {
			dir := service.Files.Dir
			if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=750"); err != nil {
				t.Skipf("this machine mounts no small disk: %v; TestFailures of package shelf has the same without one", err)
			}
			t.Cleanup(func() {
				if err := syscall.Unmount(dir, 0); err != nil {
					t.Error(err)
				}
			})
		}
	}})
	envelope := testbed.Envelope(header(), "echo", "")
	for range 3 {
		_, answer := post(t, f.bed, relatedType, bytes.NewReader(related(envelope, []byte("small"), make([]byte, 2<<20))))
		if got := faultCode(t, answer); got != "server.serverproxy.io_error" || !bytes.Contains(answer, []byte("no space left on device")) {
			t.Errorf("got %q\n%s", got, answer)
		}
		if f.calls != 0 {
			t.Error("the service was called")
		}
		f.clean()
	}
	if _, answer := post(t, f.bed, relatedType, bytes.NewReader(related(envelope, make([]byte, 900<<10)))); faultCode(t, answer) != "" {
		t.Errorf("what fits: %s", answer)
	}
	f.clean()
}
