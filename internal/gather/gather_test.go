// SPDX-License-Identifier: Apache-2.0

package gather

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
)

// recorded keeps what each write brought.
type recorded struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
	err    error
}

func (r *recorded) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return 0, r.err
	}
	r.writes = append(r.writes, bytes.Clone(b))
	return len(b), nil
}

func TestConn(t *testing.T) {
	many := bytes.Repeat([]byte("0123456789abcdef"), 1<<10)
	r := &recorded{}
	g := New(r)
	write := func(b []byte) {
		t.Helper()
		if n, err := g.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
	}
	write([]byte("before"))
	if len(r.writes) != 1 {
		t.Fatal("a write outside of a gathering does not pass")
	}
	var want []byte
	g.begin()
	for range 40 { // more than fits at once
		write(many)
		want = append(want, many...)
	}
	if err := g.end(); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Join(r.writes[1:], nil); !bytes.Equal(got, want) {
		t.Errorf("%d octets came of %d, or others", len(got), len(want))
	}
	if n := len(r.writes) - 1; n != 3 {
		t.Errorf("40 writes of 16 KiB became %d", n)
	}
	g.begin()
	if err := g.end(); err != nil || len(r.writes) != 4 {
		t.Errorf("an empty gathering: %v, %d writes", err, len(r.writes))
	}
	r.err = errors.New("broken")
	g.begin()
	write([]byte("lost"))
	if err := g.end(); err != r.err {
		t.Errorf("got %v", err)
	}
	if _, err := g.Write([]byte("after")); err != r.err {
		t.Errorf("got %v", err)
	}
}

// TestCloseWhileWriting: a peer that does not read cannot hold up the end of its connection.
func TestCloseWhileWriting(t *testing.T) {
	https := httptest.NewTLSServer(nil)
	defer https.Close()
	raw, theirs := net.Pipe()
	defer theirs.Close()
	shaken := make(chan error)
	go func() { shaken <- tls.Server(theirs, https.TLS).Handshake() }()
	blocked := &waiting{Conn: raw, began: make(chan struct{}, 100)}
	c := Client(blocked, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if err := <-shaken; err != nil {
		t.Fatal(err)
	}
	for len(blocked.began) > 0 {
		<-blocked.began
	}
	written := make(chan error)
	go func() {
		_, err := c.Write(make([]byte, 100<<10))
		written <- err
	}()
	<-blocked.began // nobody reads it
	c.Close()
	if err := <-written; err == nil {
		t.Error("a write to a closed connection succeeded")
	}
}

// waiting tells when a write begins.
type waiting struct {
	net.Conn
	began chan struct{}
}

func (w *waiting) Write(b []byte) (int, error) {
	w.began <- struct{}{}
	return w.Conn.Write(b)
}
