// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
)

// TestGather: with xroad_gather before TLS and xroad_framing behind it, as Caddy stacks them, a large answer needs few
// writes to the connection, and a file arrives whole.
func TestGather(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const size = 4 << 20
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "4194304")
		if r.URL.Path == "/file" {
			file, err := os.Open(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer file.Close()
			io.Copy(w, file)
			return
		}
		for range size / (256 << 10) {
			w.Write(make([]byte, 256<<10))
		}
	})
	for _, tt := range []struct {
		path   string
		gather bool
		least  int64 // writes to the connection
		most   int64
	}{
		{"/", true, 16, 40},
		{"/", false, 256, 400},
		{"/file", true, 64, 80},
	} {
		var writes atomic.Int64
		server := httptest.NewUnstartedServer(handler)
		server.StartTLS() // for its certificate
		raw, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var l net.Listener = countingListener{raw, &writes}
		if tt.gather {
			l = new(Gather).WrapListener(l)
		}
		config := server.TLS.Clone()
		config.NextProtos = []string{"http/1.1"}
		l = (&Framing{logger: zap.NewNop()}).WrapListener(tls.NewListener(l, config))
		stacked := &http.Server{Handler: handler}
		go stacked.Serve(l)
		response, err := server.Client().Get("https://" + raw.Addr().String() + tt.path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if n != size || err != nil {
			t.Errorf("%s: %d octets, %v", tt.path, n, err)
		}
		if w := writes.Load(); w < tt.least || w > tt.most {
			t.Errorf("%s, gathered %v: %d writes to the connection, want from %d to %d", tt.path, tt.gather, w, tt.least, tt.most)
		}
		stacked.Close()
		server.Close()
	}
}

type countingListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countingConn{conn, l.writes}, err
}

type countingConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countingConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}
