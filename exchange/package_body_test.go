// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// takesFiles is a writer that can let the kernel copy, as a plain connection does.
type takesFiles struct {
	bytes.Buffer
	file   *os.File
	cancel func() // called when it has taken something
}

func (w *takesFiles) ReadFrom(r io.Reader) (int64, error) {
	if limited, ok := r.(*io.LimitedReader); ok { // which net hands to the kernel, too
		w.file, _ = limited.R.(*os.File)
	}
	defer func() {
		if w.cancel != nil {
			w.cancel()
		}
	}()
	return w.Buffer.ReadFrom(r)
}

// TestPackageBody: an answer that lies in a file goes to a plain connection as that file, and so without passing us.
func TestPackageBody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "answer")
	if err := os.WriteFile(path, []byte("an answer"), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func() *packageBody {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { file.Close() })
		return &packageBody{ReadCloser: file, transfer: &transfer{}}
	}
	plain := &takesFiles{}
	b := open()
	if n, err := io.Copy(plain, b); n != 9 || err != nil || plain.String() != "an answer" || plain.file != b.ReadCloser {
		t.Errorf("%d, %v, %q, as a file: %v", n, err, plain.String(), plain.file != nil)
	}
	other := &bytes.Buffer{}
	if n, err := io.Copy(struct{ io.Writer }{other}, open()); n != 9 || err != nil || other.String() != "an answer" {
		t.Errorf("%d, %v, %q", n, err, other)
	}
	memory := &packageBody{ReadCloser: io.NopCloser(bytes.NewReader([]byte("an answer"))), transfer: &transfer{}}
	plain = &takesFiles{}
	if n, err := io.Copy(plain, memory); n != 9 || err != nil || plain.String() != "an answer" {
		t.Errorf("%d, %v, %q", n, err, plain.String())
	}
	for _, w := range []io.Writer{&takesFiles{}, struct{ io.Writer }{other}} {
		b = open()
		b.transfer.reason = errors.New("cancelled")
		b.transfer.stopped.Store(true)
		if n, err := io.Copy(w, b); n != 0 || err != b.transfer.reason {
			t.Errorf("a cancelled exchange delivered %d octets: %v", n, err)
		}
	}

	for _, size := range []int{0, fileStep, 3*fileStep + 1} {
		long := bytes.Repeat([]byte{'x'}, size)
		if err := os.WriteFile(path, long, 0o600); err != nil {
			t.Fatal(err)
		}
		plain = &takesFiles{}
		if n, err := io.Copy(plain, open()); n != int64(size) || err != nil || !bytes.Equal(plain.Bytes(), long) {
			t.Errorf("%d of %d octets: %v", n, size, err)
		}
	}
	b = open()
	plain = &takesFiles{cancel: func() {
		b.transfer.reason = errors.New("cancelled")
		b.transfer.stopped.Store(true)
	}}
	if n, err := io.Copy(plain, b); n != fileStep || err != b.transfer.reason {
		t.Errorf("an exchange that was cancelled meanwhile delivered %d octets: %v", n, err)
	}

	// A writer that cuts gets the file whole, and each piece is asked for.
	cutting := &cutsFiles{}
	b = open()
	cutting.between = func(n int) {
		if n == 2 {
			b.transfer.reason = errors.New("cancelled")
			b.transfer.stopped.Store(true)
		}
	}
	if n, err := io.Copy(cutting, b); n != 200 || err != b.transfer.reason {
		t.Errorf("an exchange that was cancelled between pieces delivered %d octets: %v", n, err)
	}
	if cutting.conns != 2 {
		t.Errorf("the kernel could have copied %d pieces of 2", cutting.conns)
	}
}

// cutsFiles asks for pieces of 100 octets, as Caddy's writer and the connection behind it do.
type cutsFiles struct {
	bytes.Buffer
	between func(n int)
	conns   int // pieces whose source the kernel can read
}

func (*cutsFiles) Piecewise() {}

func (w *cutsFiles) ReadFrom(r io.Reader) (total int64, err error) {
	for n := 0; ; n++ {
		w.between(n)
		if c, ok := r.(syscall.Conn); ok {
			if _, err := c.SyscallConn(); err == nil {
				w.conns++
			}
		}
		k, err := w.Buffer.ReadFrom(io.LimitReader(r, 100))
		if total += k; err != nil || k < 100 {
			return total, err
		}
	}
}
