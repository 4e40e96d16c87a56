// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// TestFramingSwitch: when a handler takes the connection over, everything passes.
func TestFramingSwitch(t *testing.T) {
	const after = "\n\n : \r\nfree\r\n \r\n\r\n"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	passed := make(chan string, 1)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
		b, _ := io.ReadAll(buffered)
		passed <- string(b)
	})}
	// A wrapper around ours, as Caddy has one.
	go server.Serve(wrapping{(&Framing{logger: zap.NewNop()}).WrapListener(listener)})
	defer server.Close()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")
	answer := bufio.NewReader(conn)
	for line := "?"; line != "\r\n"; {
		if line, err = answer.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	io.WriteString(conn, after)
	conn.(*net.TCPConn).CloseWrite()
	if got := <-passed; got != after {
		t.Errorf("%q", got)
	}
}

type wrapping struct{ net.Listener }

func (w wrapping) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	return struct{ net.Conn }{conn}, err
}

// TestFramingAnswers: an answer with octets of its client in it, wherever they are written, is no switch of protocols.
func TestFramingAnswers(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	smuggled := make(chan struct{}, 100)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/smuggled" {
			smuggled <- struct{}{}
		}
		b, _ := io.ReadAll(r.Body)
		w.Header().Set("Connection", "keep-alive")
		w.Write(b)
	})}
	go server.Serve((&Framing{logger: zap.NewNop()}).WrapListener(listener))
	defer server.Close()
	const status = "HTTP/1.1 101 "
	for phase := range len(status) {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		body := strings.Repeat("x", phase) + strings.Repeat(status, 4<<10)
		var request bytes.Buffer
		first, _ := http.NewRequest(http.MethodPost, "http://a/", strings.NewReader(body))
		first.Write(&request)
		request.WriteString("POST /smuggled HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		go func() {
			conn.Write(request.Bytes())
			conn.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(io.Discard, conn)
		conn.Close()
	}
	if len(smuggled) > 0 {
		t.Errorf("%d requests passed that can be read in two ways", len(smuggled))
	}
}
