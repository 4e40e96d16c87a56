// SPDX-License-Identifier: Apache-2.0

// Package ident holds X-Road identifiers as comparable values.
//
// Two identifiers are the same when their values are equal with ==; rights are decided on values, never on text.
// The text form joins the segments by "/", each percent-encoded where it holds "/", "%" or a control character.
package ident

import (
	"errors"
	"fmt"
	"strings"
)

// Client is a member (Subsystem is empty) or one of its subsystems.
type Client struct {
	Instance, Class, Member, Subsystem string
}

// Service is a service of a provider. Version is empty for a service without version.
type Service struct {
	Client
	Code, Version string
}

// Server is a security server, named by its owner and its code.
type Server struct {
	Instance, Class, Member, Code string
}

// ErrSyntax is wrapped by every error of the Parse functions.
var ErrSyntax = errors.New("not an X-Road identifier")

// noSubsystem stands in a service's text form where its provider has no subsystem.
const noSubsystem = "-"

// MemberOf returns the member that the client belongs to.
func (c Client) MemberOf() Client {
	c.Subsystem = ""
	return c
}

// IsZero reports whether c names nobody.
func (c Client) IsZero() bool { return c == Client{} }

// String returns the text form, INSTANCE/CLASS/MEMBER[/SUBSYSTEM].
func (c Client) String() string {
	if c.Subsystem == "" {
		return join(c.Instance, c.Class, c.Member)
	}
	return join(c.Instance, c.Class, c.Member, c.Subsystem)
}

// String returns the text form, INSTANCE/CLASS/MEMBER/SUBSYSTEM/CODE[/VERSION]; a provider without subsystem has "-"
// in its place, and a segment that is "-" is written "%2D".
func (s Service) String() string {
	segments := []string{s.Instance, s.Class, s.Member, s.Subsystem, s.Code, s.Version}
	if s.Version == "" {
		segments = segments[:5]
	}
	for i, v := range segments {
		segments[i] = escape(v)
		if v == noSubsystem {
			segments[i] = "%2D"
		}
	}
	if s.Subsystem == "" {
		segments[3] = noSubsystem
	}
	return strings.Join(segments, "/")
}

// String returns the text form, INSTANCE/CLASS/MEMBER/SERVERCODE.
func (s Server) String() string { return join(s.Instance, s.Class, s.Member, s.Code) }

// Owner returns the member that owns the server.
func (s Server) Owner() Client { return Client{Instance: s.Instance, Class: s.Class, Member: s.Member} }

// ParseClient reads exactly what Client.String prints.
func ParseClient(text string) (Client, error) {
	v, err := split(text, "client", 3, 4)
	if err != nil {
		return Client{}, err
	}
	c := Client{Instance: v[0], Class: v[1], Member: v[2]}
	if len(v) == 4 {
		c.Subsystem = v[3]
	}
	return c, exact(text, c.String())
}

// ParseService reads exactly what Service.String prints.
func ParseService(text string) (Service, error) {
	v, err := split(text, "service", 5, 6)
	if err != nil {
		return Service{}, err
	}
	s := Service{Client: Client{Instance: v[0], Class: v[1], Member: v[2], Subsystem: v[3]}, Code: v[4]}
	if strings.Split(text, "/")[3] == noSubsystem {
		s.Subsystem = ""
	}
	if len(v) == 6 {
		s.Version = v[5]
	}
	return s, exact(text, s.String())
}

// ParseServer reads exactly what Server.String prints.
func ParseServer(text string) (Server, error) {
	v, err := split(text, "security server", 4, 4)
	if err != nil {
		return Server{}, err
	}
	s := Server{Instance: v[0], Class: v[1], Member: v[2], Code: v[3]}
	return s, exact(text, s.String())
}

// MarshalText implements encoding.TextMarshaler.
func (c Client) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (s Service) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalText implements encoding.TextMarshaler.
func (s Server) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Client) UnmarshalText(b []byte) (err error) { *c, err = ParseClient(string(b)); return err }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Service) UnmarshalText(b []byte) (err error) { *s, err = ParseService(string(b)); return err }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Server) UnmarshalText(b []byte) (err error) { *s, err = ParseServer(string(b)); return err }

func join(segments ...string) string {
	for i, v := range segments {
		segments[i] = escape(v)
	}
	return strings.Join(segments, "/")
}

func escape(v string) string {
	if strings.IndexFunc(v, mustEscape) < 0 {
		return v
	}
	var b strings.Builder
	for i := range len(v) {
		if c := v[i]; mustEscape(rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(r rune) bool { return r == '/' || r == '%' || r < 0x20 || r == 0x7f }

func unescape(v string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(v); i++ {
		if v[i] != '%' {
			b.WriteByte(v[i])
			continue
		}
		if i+2 >= len(v) {
			return "", false
		}
		hi, lo := unhex(v[i+1]), unhex(v[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return b.String(), true
}

func unhex(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }

func split(text, what string, least, most int) ([]string, error) {
	segments := strings.Split(text, "/")
	if len(segments) < least || len(segments) > most {
		return nil, fmt.Errorf("%w: %q has %d segments; a %s has %s", ErrSyntax, text, len(segments), what, counts(least, most))
	}
	for i, v := range segments {
		plain, ok := unescape(v)
		if !ok || plain == "" {
			return nil, fmt.Errorf("%w: segment %d of %q is empty or badly escaped", ErrSyntax, i+1, text)
		}
		segments[i] = plain
	}
	return segments, nil
}

func counts(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d or %d", least, most)
}

func exact(text, canonical string) error {
	if text != canonical {
		return fmt.Errorf("%w: %q is spelt %q", ErrSyntax, text, canonical)
	}
	return nil
}
