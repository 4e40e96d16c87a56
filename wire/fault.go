// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/soap"
	"github.com/caddy-fairway/fairway/spool"
)

// Place is where in an exchange an error arose: the first part of a fault code (message-and-transport 10.2).
type Place string

// The places of an exchange.
const (
	AtClient   Place = "client"             // the information system's own mistake
	AtSender   Place = "server.clientproxy" // the sending security server
	AtReceiver Place = "server.serverproxy" // the receiving security server
)

// NextHop returns the place of errors that lie with the next hop: the receiver for the sender, the service for the receiver.
func (p Place) NextHop() Place { return p + ".service_failed" }

type placed struct {
	place Place
	err   error
}

func (e *placed) Error() string { return e.err.Error() }
func (e *placed) Unwrap() error { return e.err }

// At says where err arose, unless something closer to it has said so.
func At(place Place, err error) error {
	if err == nil || errors.As(err, new(*placed)) {
		return err
	}
	return &placed{place, err}
}

type caused struct {
	cause string
	err   error
}

func (e *caused) Error() string { return e.err.Error() }
func (e *caused) Unwrap() error { return e.err }
func (e *caused) Cause() string { return e.cause }

// Errorf returns an error with a cause of the catalogue (message-and-transport 10.3). The format is that of fmt.Errorf.
func Errorf(cause, format string, args ...any) error {
	return &caused{cause, fmt.Errorf(format, args...)}
}

// Because puts a cause before the causes of err.
func Because(cause string, err error) error {
	if err == nil {
		return nil
	}
	return &caused{cause, err}
}

// OrElse gives err the cause unless it, or its kind, has one of its own.
func OrElse(cause string, err error) error {
	if err == nil || len(causesOf(err, nil)) > 0 || causeOfKind(err) != internalError {
		return err
	}
	return &caused{cause, err}
}

// internalError is the cause of what nobody foresaw.
const internalError = "internal_error"

// Code returns the fault code of err: its place and its causes, outermost first, joined by dots.
// An error that names no cause gets the one that its kind has in X-Road (message-and-transport 10.3, end).
func Code(err error) string {
	causes := causesOf(err, nil)
	if len(causes) == 0 {
		causes = []string{causeOfKind(err)}
	}
	return string(placeOf(err)) + "." + strings.Join(causes, ".")
}

func placeOf(err error) Place {
	if p := (*placed)(nil); errors.As(err, &p) {
		return p.place
	}
	return AtReceiver
}

// Fault returns the fault that tells err to an information system or a peer. detail links it to our log.
func Fault(err error, detail string) *soap.Fault {
	return &soap.Fault{Code: Code(err), String: told(err), Detail: detail}
}

// told returns the words of err for others, who need not know where our files and our services lie, nor
// what an error with a method Public says of this machine.
func told(err error) string {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return "a file of this security server: " + path.Op + ": " + path.Err.Error()
	}
	text := err.Error()
	var ours interface {
		error
		Public() string
	}
	if errors.As(err, &ours) {
		text = strings.ReplaceAll(text, ours.Error(), ours.Public())
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && placeOf(err) == AtReceiver.NextHop() {
		text = strings.ReplaceAll(text, op.Error(), withoutAddress(op))
	}
	return text
}

func withoutAddress(err error) string {
	switch e := err.(type) {
	case *net.OpError:
		return e.Op + ": " + withoutAddress(e.Err)
	case *net.DNSError:
		return "lookup: " + e.Err
	}
	return err.Error()
}

// causesOf collects the causes along the first branch of err that names any.
func causesOf(err error, causes []string) []string {
	for err != nil {
		if c, ok := err.(interface{ Cause() string }); ok {
			if cause := c.Cause(); cause != "" && (len(causes) == 0 || causes[len(causes)-1] != cause) {
				causes = append(causes, cause)
			}
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, branch := range e.Unwrap() {
				if more := causesOf(branch, causes); len(more) > len(causes) {
					return more
				}
			}
			return causes
		default:
			return causes
		}
	}
	return causes
}

func causeOfKind(err error) string {
	var (
		dns       *net.DNSError
		op        *net.OpError
		limit     *multipart.LimitError
		verify    *tls.CertificateVerificationError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &limit), errors.Is(err, multipart.ErrTruncated):
		return "mime_parsing_failed"
	case errors.Is(err, multipart.ErrDelimiter):
		return "invalid_content_type"
	case errors.Is(err, spool.ErrFull):
		return "io_error"
	case errors.As(err, &dns):
		return "unknown_host"
	case errors.As(err, &verify), errors.As(err, &authority), errors.As(err, &invalid), errors.As(err, &record), errors.As(err, &alert):
		return "ssl_authentication_failed"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "io_error"
	case errors.As(err, &op), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "network_error"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, new(*fs.PathError)):
		return "io_error"
	}
	return internalError
}
