// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"crypto/tls"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// TestModel wraps a message, unwraps it, and gets the same one.
func TestModel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certificate.pem")
	if err := writeCertificate(file); err != nil {
		t.Fatal(err)
	}
	identity, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]message{"plain": {}, "SwA": {Size: 100_000}, "MTOM": {Size: 70_001, MTOM: true}} {
		t.Run(name, func(t *testing.T) {
			body, length, contentType := m.body(false)
			original, err := io.ReadAll(body)
			if err != nil || int64(len(original)) != length {
				t.Fatalf("%d octets, %v; want %d", len(original), err, length)
			}
			p := newPipe(modelPipe)
			go func() { p.close(wrap(p, bytes.NewReader(original), contentType, &identity)) }()
			kept, err := unwrap(t.TempDir(), p, &identity)
			defer kept.forget()
			if err != nil {
				t.Fatal(err)
			}
			plain, _ := kept.plain(contentType)
			got, err := io.ReadAll(plain)
			if err != nil {
				t.Fatal(err)
			}
			// The order of headers is not kept; envelope and attachment are, octet for octet.
			_, attachment, _ := bytes.Cut(original, []byte("Content-ID: <a>\r\n\r\n"))
			for _, want := range []string{m.envelope(false), string(attachment[:min(m.Size, int64(len(attachment)))])} {
				if !strings.Contains(string(got), want) {
					t.Errorf("%.100q… is not in it", want)
				}
			}
			if diff := int64(len(got)) - length; diff < -200 || diff > 200 {
				t.Errorf("%d octets, want about %d", len(got), length)
			}
		})
	}
}

func TestModelRefusesAnotherSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "certificate.pem")
	if err := writeCertificate(file); err != nil {
		t.Fatal(err)
	}
	identity, err := tls.LoadX509KeyPair(file, file)
	if err != nil {
		t.Fatal(err)
	}
	var wrapped bytes.Buffer
	if err := wrap(&wrapped, strings.NewReader("<a/>"), "text/xml", &identity); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(wrapped.Bytes(), []byte("<a/>"), []byte("<b/>"), 1)
	kept, err := unwrap(t.TempDir(), bytes.NewReader(changed), &identity)
	kept.forget()
	if err == nil {
		t.Error("a message that was changed is taken")
	}
}

func TestPipe(t *testing.T) {
	p := newPipe(16)
	want := bytes.Repeat([]byte("0123456789"), 1000)
	go func() {
		_, err := p.Write(want)
		p.close(err)
	}()
	if err := iotest.TestReader(p, want); err != nil {
		t.Error(err)
	}
	if _, err := p.Write([]byte("late")); err == nil {
		t.Error("a closed pipe takes more")
	}
}

func TestWanted(t *testing.T) {
	for name, m := range map[string]message{"nothing": {}, "SwA": {Return: 12345}, "MTOM": {Return: 1 << 30, MTOM: true}} {
		t.Run(name, func(t *testing.T) {
			body, _, _ := m.body(false)
			head, _ := io.ReadAll(body)
			if got := wanted(string(head)); got.Size != m.Return || got.MTOM != m.MTOM {
				t.Errorf("got %+v", got)
			}
		})
	}
}
