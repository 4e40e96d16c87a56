// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Ports of the service.
const (
	servicePort    = "9000"
	serviceTLSPort = "9443"
)

// serviceJob is where the certificate of the service is.
type serviceJob struct {
	Certificate string `json:"certificate"`
}

// serve takes messages, throws them away and answers, over HTTP and over HTTPS.
func serve(_ context.Context, j serviceJob) error {
	failed := make(chan error)
	handler := http.HandlerFunc(answer)
	go func() { failed <- http.ListenAndServe(":"+servicePort, handler) }()
	go func() { failed <- http.ListenAndServeTLS(":"+serviceTLSPort, j.Certificate, j.Certificate, handler) }()
	return <-failed
}

// heads holds buffers for the beginnings of requests: small messages should not pay for the service.
var heads = sync.Pool{New: func() any { return new([8 << 10]byte) }}

func answer(w http.ResponseWriter, r *http.Request) {
	buffer := heads.Get().(*[8 << 10]byte)
	defer heads.Put(buffer)
	n, err := io.ReadFull(r.Body, buffer[:])
	head := buffer[:n]
	switch {
	case bytes.Contains(head, []byte(contentMark)):
		echo(w, r, head, err == nil)
		return
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
	case err != nil:
		panic(http.ErrAbortHandler)
	default:
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10)); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	body, length, contentType := wanted(string(head)).body(true)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if length <= int64(len(buffer)) {
		_, err = io.Copy(w, body)
	} else {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, body, make([]byte, 256<<10))
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// empty is the answer to a request whose content is to be sent back, around that content.
var emptyHead, emptyTail, _ = strings.Cut(message{Content: len(contentMark + contentEnd)}.envelope(true), contentMark+contentEnd)

// echo sends the content of a request back, of which more may be to come.
func echo(w http.ResponseWriter, r *http.Request, head []byte, more bool) {
	text := head
	if more {
		whole := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), maxContent)+bytes.MinRead))
		whole.Write(head)
		if _, err := whole.ReadFrom(http.MaxBytesReader(w, r.Body, maxContent)); err != nil {
			panic(http.ErrAbortHandler)
		}
		text = whole.Bytes()
	}
	begin, end := bytes.Index(text, []byte(contentMark)), bytes.LastIndex(text, []byte(contentEnd))
	if end < begin {
		panic(http.ErrAbortHandler)
	}
	content := text[begin : end+len(contentEnd)]
	answer := make([]byte, 0, len(emptyHead)+len(content)+len(emptyTail))
	answer = append(append(append(answer, emptyHead...), content...), emptyTail...)
	w.Header().Set("Content-Type", "text/xml; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	if _, err := w.Write(answer); err != nil {
		panic(http.ErrAbortHandler)
	}
}
