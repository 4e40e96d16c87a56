// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// maxHead is how many octets of one request's head are held, and so the longest that passes. Caddy's max_header_size is 16 KiB.
const maxHead = 64 << 10

// refusal stands in place of a head that is refused: Go's server answers it, in its turn, with status 400 and closes.
const refusal = "GET / HTTP/1.1\r\n:\r\n\r\n"

// broken stands in place of what follows a chunk or a trailer that is refused. Wherever it stands, Go's server finds a
// line that is none, and no handler can take the body for complete.
const broken = "!\n!\n\r\n\r\n"

// framedConn is a connection whose requests can be cut in one way only. It holds each head until it is complete, and
// follows the body to know where the next one begins. What it passes on is unchanged.
type framedConn struct {
	net.Conn
	refused func(reason string)

	in       []byte      // read and not yet passed on
	ready    int         // so many of them may pass
	searched int         // so many have been searched for the end of a head
	body     body        // that is passing
	err      error       // follows the octets that are ready
	switched atomic.Bool // to another protocol: all may pass
}

// body is where the body of a request ends.
type body struct {
	left   int64  // octets of a body with a length, or of a chunk
	chunks *chunk // nil: a length
}

func (b *body) passing() bool { return b.left > 0 || b.chunks != nil }

// Read implements io.Reader.
func (c *framedConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if c.switched.Load() {
			c.ready = len(c.in)
		}
		switch {
		case c.ready > 0:
			n := copy(p, c.in[:c.ready])
			c.take(n)
			c.ready -= n
			return n, nil
		case c.err != nil:
			return 0, c.err
		case c.switched.Load():
			return c.Conn.Read(p)
		case c.body.passing():
			return c.readBody(p)
		}
		if err := c.readHead(); err != nil {
			return 0, err
		}
	}
}

// take forgets the first n octets.
func (c *framedConn) take(n int) {
	if c.in = c.in[n:]; len(c.in) == 0 {
		c.in = nil
	}
}

// readBody passes on what belongs to the body.
func (c *framedConn) readBody(p []byte) (int, error) {
	if c.body.chunks == nil && int64(len(p)) > c.body.left {
		p = p[:c.body.left]
	}
	held := len(c.in) > 0
	n := copy(p, c.in)
	if !held {
		var err error
		if n, err = c.Conn.Read(p); n == 0 {
			return 0, err // one that comes with octets comes again
		}
	}
	own := c.follow(p[:n])
	switch {
	case c.err != nil:
		c.in, c.ready = []byte(broken), len(broken)
		if own == 0 {
			return c.Read(p)
		}
	case held:
		c.take(own)
	default:
		c.in = append(c.in, p[own:n]...)
	}
	return own, nil
}

// follow returns how many of the octets belong to the body: at least one, unless it sets c.err.
func (c *framedConn) follow(p []byte) int {
	b := &c.body
	if b.chunks == nil {
		n := int(min(b.left, int64(len(p))))
		b.left -= int64(n)
		return n
	}
	for i := 0; i < len(p); {
		if b.left > 0 {
			n := int(min(b.left, int64(len(p)-i)))
			b.left -= int64(n)
			i += n
			continue
		}
		size, end, reason := b.chunks.next(p[i])
		if reason != "" {
			c.refused(reason)
			c.err = io.EOF
			return i
		}
		i++
		if b.left = size; end {
			b.chunks = nil
			return i
		}
	}
	return len(p)
}

// readHead reads until a head is complete, or some more of it.
func (c *framedConn) readHead() error {
	end := c.headEnd()
	if 0 < end && end <= maxHead {
		c.judge(c.in[:end])
		return nil
	}
	if len(c.in) > maxHead {
		c.ready, c.err = maxHead, io.ErrUnexpectedEOF // Go's server has its own words for it
		c.refused("the head of a request is too long")
		return nil
	}
	var more [4 << 10]byte
	n, err := c.Conn.Read(more[:])
	c.in = append(c.in, more[:n]...)
	if n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		if n > 0 {
			err = nil
		}
		return err
	}
	c.ready, c.err = len(c.in), err
	return nil
}

// headEnd returns where the head that stands first ends, or 0.
func (c *framedConn) headEnd() int {
	leading := len(c.in) - len(bytes.TrimLeft(c.in, "\r\n")) // Go's server forgives some of them
	from := max(leading, c.searched)
	for {
		i := bytes.IndexByte(c.in[from:], '\n')
		if i < 0 {
			c.searched = max(leading, len(c.in)-2)
			return 0
		}
		from += i + 1
		switch rest := c.in[from:]; {
		case bytes.HasPrefix(rest, []byte("\n")):
			return from + 1
		case bytes.HasPrefix(rest, []byte("\r\n")):
			return from + 2
		case len(rest) < 2:
			c.searched = from - 1
			return 0
		}
	}
}

// judge lets a head pass, or puts a refusal in its place.
func (c *framedConn) judge(head []byte) {
	c.searched = 0
	text := strings.TrimLeft(string(head), "\r\n")
	if text == "PRI * HTTP/2.0\r\n\r\n" {
		c.switched.Store(true)
		return
	}
	b, reason := framingOf(text)
	if reason != "" {
		c.refused(reason)
		c.in = []byte(refusal)
		c.ready, c.err = len(c.in), io.EOF
		return
	}
	c.ready, c.body = len(head), b
}

// framingOf reads a head, which ends in an empty line, and says why there are two ways to read it.
func framingOf(head string) (b body, reason string) {
	lines := strings.Split(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	var lengths, encodings []string
	for i, line := range lines {
		if strings.ContainsAny(line, "\r\n\x00") {
			return b, "a line feed, a carriage return or a NUL stands alone in the header"
		}
		if i == 0 {
			continue
		}
		if line == "" || line[0] == ' ' || line[0] == '\t' {
			return b, "a header line is folded"
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || strings.ContainsAny(name, " \t") {
			return b, "a header line has no colon, or a blank before it"
		}
		switch value = strings.Trim(value, " \t"); strings.ToLower(name) {
		case "content-length":
			lengths = append(lengths, value)
		case "transfer-encoding":
			encodings = append(encodings, value)
		}
	}
	switch {
	case len(encodings) == 0 && len(lengths) == 0:
		return b, ""
	case len(encodings) > 0 && len(lengths) > 0:
		return b, "it has a Content-Length and a Transfer-Encoding"
	case len(encodings) > 1 || len(encodings) == 1 && !strings.EqualFold(encodings[0], "chunked"):
		return b, "its Transfer-Encoding is not chunked alone"
	case len(encodings) == 1 && !strings.HasSuffix(lines[0], " HTTP/1.1"):
		return b, "it has a Transfer-Encoding and is not HTTP/1.1"
	case len(encodings) == 1:
		return body{chunks: new(chunk)}, ""
	}
	for _, l := range lengths {
		if l != lengths[0] {
			return b, "it has two Content-Lengths that differ"
		}
	}
	for _, digit := range []byte(lengths[0]) {
		if digit < '0' || digit > '9' || b.left > 1<<58 {
			return body{}, "its Content-Length is no number, or too large"
		}
		b.left = 10*b.left + int64(digit-'0')
	}
	if lengths[0] == "" {
		return b, "its Content-Length is empty"
	}
	return b, ""
}

// chunk is what has been seen between the octets of two chunks, and after the last one.
type chunk struct {
	size    int64
	digits  int
	stage   chunkStage
	last    bool   // the last chunk has been seen: lines of the trailer follow
	content bool   // the line of the trailer is not empty
	name    []byte // of the field in the trailer; nil once it is over
}

type chunkStage uint8

const (
	chunkSize      chunkStage = iota // a size begins or goes on
	chunkExtension                   // the rest of the line
	chunkLineFeed                    // a line feed has to come
	chunkEnd                         // the CR behind the octets of a chunk has to come
	chunkEndFeed                     // and its line feed
)

// next looks at an octet that belongs to no chunk. It returns how many octets of a chunk follow, whether the body is
// over, or what is wrong.
func (k *chunk) next(c byte) (size int64, end bool, reason string) {
	switch {
	case k.stage == chunkEnd && c == '\r':
		k.stage = chunkEndFeed
	case k.stage == chunkEndFeed && c == '\n':
		*k = chunk{}
	case k.stage == chunkEnd || k.stage == chunkEndFeed:
		return 0, false, "a chunk is longer than it says"
	case k.stage == chunkLineFeed:
		if c != '\n' {
			return 0, false, "a carriage return stands alone between chunks"
		}
		return k.lineEnd()
	case c == '\r':
		k.stage = chunkLineFeed
	case c == '\n':
		return 0, false, "a line feed stands alone between chunks"
	case k.last && c == ':' && belongsInHeader(k.name):
		return 0, false, "the trailer has the field " + string(k.name)
	case k.last:
		k.trailer(c)
	case k.stage == chunkSize && isHex(c):
		if k.digits++; k.digits > 15 {
			return 0, false, "a chunk is too large"
		}
		k.size = k.size<<4 | hexValue(c)
	case k.digits == 0:
		return 0, false, "a chunk has no size"
	case c == ';' || c == ' ' || c == '\t' || k.stage == chunkExtension:
		k.stage = chunkExtension
	default:
		return 0, false, "the size of a chunk is no number"
	}
	return 0, false, ""
}

// trailer takes an octet of a line of the trailer.
func (k *chunk) trailer(c byte) {
	switch {
	case c == ':' || len(k.name) > len("transfer-encoding"):
		k.name = nil
	case !k.content || k.name != nil:
		k.name = append(k.name, c)
	}
	k.content = true
}

// belongsInHeader says whether a field of that name tells what the message is: a reader that puts the trailer into the
// header would read another one.
func belongsInHeader(name []byte) bool {
	switch strings.ToLower(strings.Trim(string(name), " \t")) {
	case "content-type", "content-encoding", "content-length", "transfer-encoding", "soapaction", "host", "authorization", "cookie":
		return true
	}
	return false
}

// lineEnd is told that a line has ended.
func (k *chunk) lineEnd() (size int64, end bool, reason string) {
	switch {
	case k.last:
		end = !k.content
		k.stage, k.content, k.name = chunkSize, false, nil
		return 0, end, ""
	case k.digits == 0:
		return 0, false, "a chunk has no size"
	case k.size == 0:
		*k = chunk{last: true}
		return 0, false, ""
	}
	size = k.size
	*k = chunk{stage: chunkEnd}
	return size, false, ""
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) int64 {
	switch {
	case c >= 'a':
		return int64(c-'a') + 10
	case c >= 'A':
		return int64(c-'A') + 10
	}
	return int64(c - '0')
}

// SetDeadline is what Go's server calls when a handler takes the connection over, and at no other time: no request comes any
// more, and the watching ends. What is written tells nothing, for an answer may hold what its client likes.
func (c *framedConn) SetDeadline(t time.Time) error {
	c.switched.Store(true)
	return c.Conn.SetDeadline(t)
}

// ReadFrom implements io.ReaderFrom, by which files go out through the kernel.
func (c *framedConn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite is what Go's server does before it closes after a refusal.
func (c *framedConn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}
