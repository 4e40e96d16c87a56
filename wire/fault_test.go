// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
)

func TestCode(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"cause of ours", At(AtClient, Errorf("invalid_http_method", "GET")), "client.invalid_http_method"},
		{"next hop", At(AtReceiver.NextHop(), Errorf("http_error", "502")), "server.serverproxy.service_failed.http_error"},
		{"nested causes", At(AtSender, Because("signature_verification", Errorf("invalid_signature_value", "no"))), "server.clientproxy.signature_verification.invalid_signature_value"},
		{"the same cause twice", Because("io_error", Errorf("io_error", "no")), "server.serverproxy.io_error"},
		{"the inner place counts", At(AtSender, At(AtClient, Errorf("invalid_soap", "no"))), "client.invalid_soap"},
		{"a cause among several errors", At(AtSender, fmt.Errorf("%w, %w", errors.New("plain"), Errorf("invalid_xml", "no"))), "server.clientproxy.invalid_xml"},
		{"unknown host", At(AtReceiver.NextHop(), &net.OpError{Op: "dial", Err: &net.DNSError{Name: "nowhere"}}), "server.serverproxy.service_failed.unknown_host"},
		{"refused", At(AtSender, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}), "server.clientproxy.network_error"},
		{"time-out", At(AtSender, context.DeadlineExceeded), "server.clientproxy.io_error"},
		{"cut", At(AtClient, fmt.Errorf("reading: %w", io.ErrUnexpectedEOF)), "client.io_error"},
		{"spool full", At(AtReceiver, fmt.Errorf("write: %w", spool.ErrFull)), "server.serverproxy.io_error"},
		{"multipart truncated", At(AtClient, multipart.ErrTruncated), "client.mime_parsing_failed"},
		{"multipart limit", At(AtClient, &multipart.LimitError{Limit: "Parts", Max: 1}), "client.mime_parsing_failed"},
		{"foreign delimiter", At(AtReceiver.NextHop(), multipart.ErrDelimiter), "server.serverproxy.service_failed.invalid_content_type"},
		{"anything else", At(AtSender, errors.New("?")), "server.clientproxy.internal_error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Code(tt.err); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			document := Fault(tt.err, "42").Bytes()
			fault, err := soap.ParseFault(document)
			if err != nil || fault.Code != tt.want || fault.String != told(tt.err) || fault.Detail != "42" {
				t.Errorf("the fault reads %+v, %v", fault, err)
			}
		})
	}
}

func TestFaultHidesPaths(t *testing.T) {
	err := fmt.Errorf("spool: %w", &fs.PathError{Op: "write", Path: "/var/lib/secret/1", Err: syscall.ENOSPC})
	if text := Fault(err, "").String; strings.Contains(text, "secret") || !strings.Contains(text, "no space left") {
		t.Error(text)
	}
}

// TestFaultHidesRoom: how full a spool is, is in the error, for the log, and not in the fault.
func TestFaultHidesRoom(t *testing.T) {
	err := spool.NewMemory(12345).Room(99999)
	if err == nil || !strings.Contains(err.Error(), "12345") {
		t.Fatal(err)
	}
	if got, want := Fault(At(AtReceiver, fmt.Errorf("receiving: %w", err)), "").String, "receiving: the spool of this security server is full: there is no room for 99999 more octets now"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFaultHidesServices: peers need not know where our services are; our own information systems may know where peers are.
func TestFaultHidesServices(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 9000}
	write := &net.OpError{Op: "write", Net: "tcp", Source: address, Addr: address, Err: os.NewSyscallError("write", syscall.ECONNRESET)}
	dns := &net.DNSError{Err: "no such host", Name: "inner.example", Server: "10.1.2.4:53"}
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"dial":   {&net.OpError{Op: "dial", Net: "tcp", Addr: address, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, "calling: dial: connect: connection refused"},
		"nested": {&net.OpError{Op: "readfrom", Net: "tcp", Source: address, Addr: address, Err: write}, "calling: readfrom: write: write: connection reset by peer"},
		"DNS":    {&net.OpError{Op: "dial", Net: "tcp", Err: dns}, "calling: dial: lookup: no such host"},
	} {
		err := fmt.Errorf("calling: %w", tt.err)
		if got := Fault(At(AtReceiver.NextHop(), err), "").String; got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		if got := Fault(At(AtSender, err), "").String; got != err.Error() {
			t.Errorf("%s: at the sender: %q", name, got)
		}
	}
}

func TestSOAPAction(t *testing.T) {
	for value, ok := range map[string]bool{
		"": true, `""`: true, `"urn:a"`: true, `"a/b"`: true, `"http://example.org/action"`: true,
		"http://example.org/action": false, `"a"b"`: false, `"a b"`: false, `"`: false, `"a`: false,
	} {
		t.Run(value, func(t *testing.T) {
			got, err := SOAPAction(http.Header{"Soapaction": {value}}, "SOAPAction")
			if (err == nil) != ok || ok && got != value {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if _, err := SOAPAction(http.Header{"Soapaction": {`""`, `""`}}, "SOAPAction"); err == nil {
		t.Error("a SOAPAction that stands twice is accepted")
	}
	if got, err := SOAPAction(http.Header{}, "SOAPAction"); got != "" || err != nil {
		t.Errorf("absent: %q, %v", got, err)
	}
}

func TestOlderThan(t *testing.T) {
	for version, want := range map[string]bool{"7.5.9": true, "6.26.0": true, "7.6.0": false, "7.8.0-beta1": false, "8.0.0": false, "": false, "x": false} {
		if got := OlderThan(version, 7, 6); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}
