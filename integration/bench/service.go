// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
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

func answer(w http.ResponseWriter, r *http.Request) {
	head := make([]byte, 8<<10)
	n, err := io.ReadFull(r.Body, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		panic(http.ErrAbortHandler)
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 256<<10)); err != nil {
		panic(http.ErrAbortHandler)
	}
	body, length, contentType := wanted(string(head[:n])).body(true)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.FormatInt(length, 10))
	if _, err := io.CopyBuffer(struct{ io.Writer }{w}, body, make([]byte, 256<<10)); err != nil {
		panic(http.ErrAbortHandler)
	}
}
