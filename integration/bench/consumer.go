// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// job is what a consumer does: it sends one message and takes the answer.
type job struct {
	URL     string  `json:"url"`
	Message message `json:"message"`
	Trust   string  `json:"trust,omitempty"` // file with the certificate to expect over HTTPS
	Patient bool    `json:"patient,omitempty"`
	Refused string  `json:"refused,omitempty"` // part of the fault that is wanted
	Knock   bool    `json:"knock,omitempty"`   // only look whether somebody is there
}

// outcome is what a consumer saw.
type outcome struct {
	Seconds float64 `json:"seconds"` // from before the connection is made until the answer has been read
	Stall   float64 `json:"stall"`   // the longest time for which nobody took anything of the message
	Octets  int64   `json:"octets"`  // of the answer
}

// patience is how long a consumer waits for a server that starts.
const patience = 20 * time.Second

// consume does a job and prints the outcome as JSON.
func consume(ctx context.Context, j job) error {
	client, err := j.client()
	if err != nil {
		return err
	}
	o, err := j.exchange(ctx, client)
	for begun := time.Now(); err != nil && j.Patient && time.Since(begun) < patience; {
		time.Sleep(100 * time.Millisecond)
		o, err = j.exchange(ctx, client)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

func (j job) client() (*http.Client, error) {
	transport := &http.Transport{WriteBufferSize: 256 << 10, ReadBufferSize: 256 << 10, TLSClientConfig: new(tls.Config)}
	if j.Trust != "" {
		text, err := os.ReadFile(j.Trust)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text)
	}
	return &http.Client{Transport: transport}, nil
}

func (j job) exchange(ctx context.Context, client *http.Client) (o outcome, err error) {
	if j.Knock {
		response, err := client.Get(j.URL)
		if err == nil {
			response.Body.Close()
		}
		return o, err
	}
	body, length, contentType := j.Message.body(false)
	upload := &paced{r: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.URL, upload)
	if err != nil {
		return o, err
	}
	req.ContentLength = length
	req.Header.Set("Content-Type", contentType)
	start := time.Now()
	response, err := client.Do(req)
	if err != nil {
		return o, err
	}
	defer response.Body.Close()
	head, err := io.ReadAll(io.LimitReader(response.Body, 8<<10))
	if err != nil {
		return o, err
	}
	rest, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, response.Body, make([]byte, 256<<10))
	if err != nil {
		return o, err
	}
	o.Seconds, o.Octets = time.Since(start).Seconds(), int64(len(head))+rest
	switch fault := strings.Contains(string(head), "Fault>"); {
	case fault && j.Refused != "" && strings.Contains(string(head), j.Refused):
		return o, nil
	case fault || j.Refused != "" || response.StatusCode != http.StatusOK:
		return o, fmt.Errorf("%s answered %s:\n%s", j.URL, response.Status, head)
	}
	if !strings.Contains(string(head), "echoResponse") || o.Octets < j.Message.Return {
		return o, errors.New("the answer is not from the service")
	}
	o.Stall = upload.stall.Seconds()
	return o, nil
}

// paced notes the longest time between two reads.
type paced struct {
	r     io.Reader
	last  time.Time
	stall time.Duration
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	now := time.Now()
	if !p.last.IsZero() {
		p.stall = max(p.stall, now.Sub(p.last))
	}
	p.last = now
	return p.r.Read(b)
}
