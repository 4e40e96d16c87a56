// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/caddy-fairway/fairway/crypto/asice"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/soap"
)

// told is what a message says of itself: it is true as far as the sender is to be believed.
type told struct {
	Protocol string        `json:"protocol"` // SOAP or REST
	Response bool          `json:"response"`
	ID       string        `json:"id"`
	Client   ident.Client  `json:"client"`
	Service  ident.Service `json:"service"`

	open bool // by what the message says it could be a request as well as a response
}

func (m *told) kind() string {
	if m.Response {
		return "response"
	}
	return "request"
}

// sender is who must have signed (signature-and-evidence 10.3 step 1).
func (m *told) sender() ident.Client {
	if m.Response {
		return m.Service.Client
	}
	return m.Client
}

// readTold reads the message, once more, and makes sure that it is the one that was verified.
func readTold(open asice.Opener, verified *watched) (*told, error) {
	sum := verified.sum
	verified.sum = nil // until the end has been read again
	r, err := open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, err := parseTold(r)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(sum, verified.sum) {
		return nil, errors.New("the message changed while it was read")
	}
	return m, nil
}

// parseTold reads a message of either protocol to its end. The first octets tell: SOAP is XML, and REST is not.
func parseTold(r io.Reader) (*told, error) {
	b := bufio.NewReader(r)
	start, err := b.Peek(1)
	if err != nil {
		return nil, refuse("invalid_soap", "reading the message: %w", err)
	}
	if c := start[0]; '1' <= c && c <= '9' || 'A' <= c && c <= 'Z' {
		return parseREST(b)
	}
	return parseSOAP(b)
}

func parseSOAP(r io.Reader) (*told, error) {
	e, err := soap.Open(r, "", soap.DefaultLimits)
	if err != nil {
		return nil, fmt.Errorf("reading the message: %w", err)
	}
	if _, err := io.Copy(io.Discard, e); err != nil {
		return nil, fmt.Errorf("reading the message: %w", err)
	}
	h := &e.Header
	m := &told{Protocol: "SOAP", ID: h.ID, Client: h.Client, Service: h.Service}
	m.Response = e.Fault || h.RequestHash != nil || strings.HasSuffix(e.Body, "Response")
	m.open = m.Response && !e.Fault && h.RequestHash == nil
	if m.Client.IsZero() || m.Service.Client.IsZero() {
		return nil, refuse("missing_header_field", "the message does not say who sent it")
	}
	return m, nil
}

// maxREST is how long the part of a REST message may be that is not its body, in octets.
const maxREST = 256 << 10

// parseREST reads what X-Road signs of a REST message: two lines, and headers (message-and-transport 8.2 and 8.4).
func parseREST(r io.Reader) (*told, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxREST+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxREST {
		return nil, refuse("invalid_message", "the REST message has more than %d octets beside its body", maxREST)
	}
	lines := strings.FieldsFunc(string(text), func(c rune) bool { return c == '\r' || c == '\n' })
	if len(lines) < 2 {
		return nil, refuse("invalid_message", "the message is neither SOAP nor REST")
	}
	headers := make(map[string]string)
	for _, line := range lines[2:] {
		name, value, _ := strings.Cut(line, ":")
		name = strings.ToLower(name)
		if !strings.HasPrefix(name, "x-road-") {
			continue
		}
		if _, twice := headers[name]; twice {
			return nil, refuse("invalid_message", "the REST message has the header %q twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	m := &told{Protocol: "REST", ID: headers["x-road-id"]}
	m.Response = lines[0][0] <= '9'
	service := headers["x-road-service"]
	if !m.Response {
		_, after, _ := strings.Cut(strings.TrimPrefix(lines[1], "/"), "/") // the first is the version of the protocol
		service, _, _ = strings.Cut(after, "?")
		if segments := strings.SplitN(service, "/", 6); len(segments) > 5 {
			service = strings.Join(segments[:5], "/")
		}
	}
	client, err := segments(headers["x-road-client"], 3, 4)
	if err != nil {
		return nil, refuse("invalid_message", "reading the client of the REST message: %w", err)
	}
	provider, err := segments(service, 5, 5)
	if err != nil {
		return nil, refuse("invalid_message", "reading the service of the REST message: %w", err)
	}
	client = append(client, "")
	m.Client = ident.Client{Instance: client[0], Class: client[1], Member: client[2], Subsystem: client[3]}
	m.Service = ident.Service{Client: ident.Client{Instance: provider[0], Class: provider[1], Member: provider[2], Subsystem: provider[3]}, Code: provider[4]}
	return m, nil
}

// segments splits an identifier of a REST message.
func segments(text string, least, most int) ([]string, error) {
	all := strings.Split(text, "/")
	if len(all) < least || len(all) > most {
		return nil, fmt.Errorf("%.200q has %d segments", text, len(all))
	}
	for i, s := range all {
		plain, err := url.PathUnescape(s)
		if err != nil || plain == "" {
			return nil, fmt.Errorf("%.200q has a segment that is no code", text)
		}
		all[i] = plain
	}
	return all, nil
}
