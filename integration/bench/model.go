// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"os"
	"sync"
)

// The model of X-Road's data path does with a message what X-Road's two proxies do with one, as far as time goes: the
// parts are read in blocks of 8 KiB, hashed with SHA-512 and pushed through one pipe of 1 KiB into the HTTP client; the
// other side keeps each part in a file of its own, written in blocks of 8 KiB, and reads it again for the service; the
// answer comes back the same way. A signature of the digests is the last part, RSA of 2048 bits. Each exchange has a TLS
// connection of its own, with a full handshake: TLS 1.2 with AES-256-GCM-SHA384, for Go has no AES-256-CBC-SHA384, which
// is what X-Road would take. It is a model: no rights, no X-Road headers, no OCSP, no message log, and no JVM.
const (
	modelBlock = 8 << 10
	modelPipe  = 1 << 10
)

// modelJob is the particulars of either role.
type modelJob struct {
	Listen      string `json:"listen"`
	To          string `json:"to"`
	Certificate string `json:"certificate"`
	Spool       string `json:"spool"`
}

func startModel(_ context.Context, b *bench, number int) (*contestant, error) {
	send, peer := fmt.Sprintf("127.0.0.1:%d", 8000+number), fmt.Sprintf("%s:%d", farAddress, 7000+number)
	c, err := b.startPair(fmt.Sprintf("model-%d", number), func(dir string) ([]string, error) {
		return roleCommand("model-sender", modelJob{send, "https://" + peer + "/", b.certificate, dir})
	}, func(dir string) ([]string, error) {
		spool := b.place(dir)
		if err := os.MkdirAll(spool, 0o700); err != nil {
			return nil, err
		}
		return roleCommand("model-receiver", modelJob{peer, "http://127.0.0.1:" + servicePort + "/", b.certificate, spool})
	})
	if err != nil {
		return nil, err
	}
	c.url = "http://" + send + "/"
	return c, nil
}

// identity loads the key with which both sides sign and speak TLS.
func (j modelJob) identity() (*tls.Certificate, *tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(j.Certificate, j.Certificate)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(pair.Leaf)
	return &pair, &tls.Config{
		Certificates: []tls.Certificate{pair}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384},
		SessionTicketsDisabled: true,
	}, nil
}

// modelSender takes messages from consumers.
func modelSender(_ context.Context, j modelJob) error {
	identity, config, err := j.identity()
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	return http.ListenAndServe(j.Listen, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pipe := newPipe(modelPipe)
		defer pipe.close(io.ErrClosedPipe)
		go func() { pipe.close(wrap(pipe, r.Body, r.Header.Get("Content-Type"), identity)) }()
		request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, j.To, pipe)
		if err == nil {
			request.Header.Set("X-Original-Content-Type", r.Header.Get("Content-Type"))
			err = j.relay(client, request, identity, w)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}))
}

// relay sends a message to the other side, keeps the answer until it is verified, and hands it on.
func (j modelJob) relay(client *http.Client, request *http.Request, identity *tls.Certificate, w http.ResponseWriter) error {
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	kept, err := unwrap(j.Spool, response.Body, identity)
	defer kept.forget()
	if err != nil {
		return err
	}
	body, contentType := kept.plain(response.Header.Get("X-Original-Content-Type"))
	w.Header().Set("Content-Type", contentType)
	_, err = copyBlocks(w, body)
	return err
}

// modelReceiver takes messages from the other side and calls the service.
func modelReceiver(_ context.Context, j modelJob) error {
	identity, config, err := j.identity()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: j.Listen, TLSConfig: config, TLSNextProto: make(map[string]func(*http.Server, *tls.Conn, http.Handler))}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept, err := unwrap(j.Spool, r.Body, identity)
		defer kept.forget()
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body, contentType := kept.plain(r.Header.Get("X-Original-Content-Type"))
		response, err := http.Post(j.To, contentType, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		w.Header().Set("X-Original-Content-Type", response.Header.Get("Content-Type"))
		if err := wrap(w, response.Body, response.Header.Get("Content-Type"), identity); err != nil {
			panic(http.ErrAbortHandler)
		}
	})
	return server.ListenAndServeTLS("", "")
}

const modelBoundary = "model-boundary"

// wrap writes a message as the proxies exchange it: its parts, hashed, and their signature.
func wrap(w io.Writer, body io.Reader, contentType string, identity *tls.Certificate) error {
	out := multipart.NewWriter(w)
	if err := out.SetBoundary(modelBoundary); err != nil {
		return err
	}
	var digests []byte
	err := eachPart(body, contentType, func(h textproto.MIMEHeader, part io.Reader) error {
		to, err := out.CreatePart(h)
		if err != nil {
			return err
		}
		hash := sha512.New()
		_, err = copyBlocks(to, io.TeeReader(part, hash))
		digests = hash.Sum(digests)
		return err
	})
	if err != nil {
		return err
	}
	sum := sha512.Sum512(digests)
	signature, err := identity.PrivateKey.(crypto.Signer).Sign(rand.Reader, sum[:], crypto.SHA512)
	if err != nil {
		return err
	}
	to, err := out.CreatePart(textproto.MIMEHeader{"Content-Type": {"signature/model"}})
	if err != nil {
		return err
	}
	if _, err := to.Write(signature); err != nil {
		return err
	}
	return out.Close()
}

// eachPart visits the parts of a message; a plain envelope is one part.
func eachPart(body io.Reader, contentType string, visit func(textproto.MIMEHeader, io.Reader) error) error {
	media, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return err
	}
	if media != "multipart/related" {
		return visit(textproto.MIMEHeader{"Content-Type": {contentType}}, body)
	}
	for r := multipart.NewReader(body, parameters["boundary"]); ; {
		part, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := visit(part.Header, part); err != nil {
			return err
		}
	}
}

// kept is a message in files.
type kept struct {
	headers []textproto.MIMEHeader
	files   []*os.File
}

// unwrap keeps the parts of a message in a file each, and verifies their signature.
func unwrap(dir string, body io.Reader, identity *tls.Certificate) (*kept, error) {
	k := new(kept)
	var digests, signature []byte
	err := eachPart(body, "multipart/related; boundary="+modelBoundary, func(h textproto.MIMEHeader, part io.Reader) (err error) {
		if h.Get("Content-Type") == "signature/model" {
			signature, err = io.ReadAll(io.LimitReader(part, modelBlock))
			return err
		}
		file, err := os.CreateTemp(dir, "part")
		if err != nil {
			return err
		}
		k.headers, k.files = append(k.headers, h), append(k.files, file)
		hash := sha512.New()
		_, err = copyBlocks(file, io.TeeReader(part, hash))
		digests = hash.Sum(digests)
		return err
	})
	if err != nil {
		return k, err
	}
	if len(k.files) == 0 {
		return k, errors.New("the message has no parts")
	}
	sum := sha512.Sum512(digests)
	return k, rsa.VerifyPKCS1v15(&identity.PrivateKey.(*rsa.PrivateKey).PublicKey, crypto.SHA512, sum[:], signature)
}

// plain returns the message as it was before it was wrapped.
func (k *kept) plain(contentType string) (io.Reader, string) {
	for _, file := range k.files {
		file.Seek(0, io.SeekStart) // a regular file takes it
	}
	if _, parameters, _ := mime.ParseMediaType(contentType); parameters["boundary"] == "" {
		return struct{ io.Reader }{k.files[0]}, contentType
	} else {
		r, w := io.Pipe()
		go func() { w.CloseWithError(k.write(w, parameters["boundary"])) }()
		return r, contentType
	}
}

func (k *kept) write(w io.Writer, boundary string) error {
	out := multipart.NewWriter(w)
	if err := out.SetBoundary(boundary); err != nil {
		return err
	}
	for i, file := range k.files {
		to, err := out.CreatePart(k.headers[i])
		if err == nil {
			_, err = copyBlocks(to, file)
		}
		if err != nil {
			return err
		}
	}
	return out.Close()
}

func (k *kept) forget() {
	for _, file := range k.files {
		file.Close()
		os.Remove(file.Name())
	}
}

// copyBlocks copies as X-Road does, whatever the ends could do better.
func copyBlocks(w io.Writer, r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, make([]byte, modelBlock))
}

// pipe is a pipe with a buffer, as Java's PipedInputStream: a writer waits while it is full.
type pipe struct {
	mu     sync.Mutex
	change sync.Cond
	ring   []byte
	from   int // of the octets that wait
	held   int
	err    error // after those that wait
}

func newPipe(size int) *pipe {
	p := &pipe{ring: make([]byte, size)}
	p.change.L = &p.mu
	return p
}

// Write implements io.Writer.
func (p *pipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n < len(b) {
		for p.held == len(p.ring) && p.err == nil {
			p.change.Wait()
		}
		if p.err != nil {
			return n, p.err
		}
		to := (p.from + p.held) % len(p.ring)
		k := copy(p.ring[to:min(len(p.ring), to+len(p.ring)-p.held)], b[n:])
		n, p.held = n+k, p.held+k
		p.change.Broadcast()
	}
	return n, nil
}

// Read implements io.Reader.
func (p *pipe) Read(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held == 0 {
		if p.err != nil {
			return 0, p.err
		}
		p.change.Wait()
	}
	n = copy(b, p.ring[p.from:min(len(p.ring), p.from+p.held)])
	p.from, p.held = (p.from+n)%len(p.ring), p.held-n
	p.change.Broadcast()
	return n, nil
}

// close ends the pipe: what waits can still be read, and then comes err, or io.EOF. The first end counts.
func (p *pipe) close(err error) {
	if err == nil {
		err = io.EOF
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
	}
	p.change.Broadcast()
}
