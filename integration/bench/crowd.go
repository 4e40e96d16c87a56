// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crowdJob is information systems that send small messages, each one after another, as fast as they are answered. It says
// as much as it must: octets that were made before go to a connection, and of an answer only what tells its end is read
// and whether it is the right one. What a load tool takes of the processors, those that are measured do not have.
type crowdJob struct {
	URL     string        `json:"url"`
	Trust   string        `json:"trust,omitempty"` // file with the certificate to expect over HTTPS
	Message message       `json:"message"`
	Clients int           `json:"clients"`
	Fresh   bool          `json:"fresh,omitempty"` // a new connection for every message
	Warm    time.Duration `json:"warm"`            // what comes before is not counted
	Count   time.Duration `json:"count"`
	Number  int           `json:"number,omitempty"` // of messages, instead of Count
	Round   int           `json:"round,omitempty"`  // messages after which all wait for each other; 0: never
}

// crowdOutcome is what they saw. An answer that is not the right one is an error, and there is no outcome.
type crowdOutcome struct {
	All       int     `json:"all"` // exchanges, and those of the time before
	PerSecond float64 `json:"per_second"`
	Median    float64 `json:"median"` // seconds
	P99       float64 `json:"p99"`
	Round     float64 `json:"round,omitempty"` // seconds, median
}

// dialling is how many connect at a time, so that a queue of connections that wait to be accepted does not overflow.
const dialling = 64

func sendCrowd(ctx context.Context, j crowdJob) error {
	o, err := j.do(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o)
}

func (j crowdJob) do(ctx context.Context) (o crowdOutcome, err error) {
	clients, err := j.gather(ctx)
	if err != nil {
		return o, err
	}
	// Another message at the same time as all others: whoever between us needs a connection for each has it then.
	if err := together(len(clients), func(i int) error { return clients[i].exchange() }); err != nil {
		return o, err
	}
	if j.Round > 0 {
		return j.rounds(clients)
	}
	return j.steady(clients)
}

// gather connects all clients, and each has exchanged a message when it returns.
func (j crowdJob) gather(ctx context.Context) ([]*client, error) {
	dial, request, want, err := j.prepare(ctx)
	if err != nil {
		return nil, err
	}
	turn := make(chan struct{}, dialling)
	clients := make([]*client, j.Clients)
	err = together(len(clients), func(i int) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		clients[i] = &client{dial: dial, request: request, want: want, fresh: j.Fresh}
		return clients[i].exchange()
	})
	return clients, err
}

// together runs n functions at once and returns the first error.
func together(n int, f func(i int) error) error {
	var wait sync.WaitGroup
	failed := make(chan error, n)
	for i := range n {
		wait.Go(func() {
			if err := f(i); err != nil {
				failed <- err
			}
		})
	}
	wait.Wait()
	close(failed)
	return <-failed
}

// steady lets all clients go on for a number of messages; or for a time, and until there are as many answers as clients,
// and counts what is answered meanwhile.
func (j crowdJob) steady(clients []*client) (o crowdOutcome, err error) {
	var (
		sent, answered atomic.Int64 // that count
		all            atomic.Int64
		stopped        atomic.Bool
		begin          = time.Now().Add(j.Warm)
		took           = make([][]float64, len(clients))
		last           = make([]time.Time, len(clients)) // of those that count
	)
	err = together(len(clients), func(i int) error {
		for {
			start := time.Now()
			counts := start.After(begin)
			if j.Number > 0 {
				if counts && sent.Add(1) > int64(j.Number) {
					return nil
				}
			} else if start.After(begin.Add(j.Count)) && answered.Load() >= int64(len(clients)) || stopped.Load() {
				stopped.Store(true)
				return nil
			}
			if err := clients[i].exchange(); err != nil {
				stopped.Store(true)
				return err
			}
			all.Add(1)
			now := time.Now()
			if j.Number == 0 { // what was under way already at the beginning counts, and what is still at the end does not
				counts = now.After(begin) && !stopped.Load()
			}
			if counts {
				answered.Add(1)
				took[i], last[i] = append(took[i], now.Sub(start).Seconds()), now
			}
		}
	})
	if err != nil {
		return o, err
	}
	seconds, end := slices.Concat(took...), slices.MaxFunc(last, time.Time.Compare)
	o.All, o.PerSecond = int(all.Load())+2*len(clients), float64(len(seconds))/end.Sub(begin).Seconds()
	o.Median, o.P99 = median(seconds), percentile(seconds, 99)
	return o, nil
}

// rounds lets the clients share a number of messages, over and over, and says how long that takes.
func (j crowdJob) rounds(clients []*client) (o crowdOutcome, err error) {
	round := func(messages int) (float64, error) {
		start := time.Now()
		var number atomic.Int64
		err := together(min(len(clients), messages), func(i int) error {
			for number.Add(1) <= int64(messages) {
				if err := clients[i].exchange(); err != nil {
					return err
				}
			}
			return nil
		})
		o.All += messages
		return time.Since(start).Seconds(), err
	}
	for begun := time.Now(); time.Since(begun) < j.Warm; {
		if _, err := round(len(clients)); err != nil {
			return o, err
		}
	}
	var seconds []float64
	for begun := time.Now(); len(seconds) == 0 || time.Since(begun) < j.Count; {
		took, err := round(j.Round)
		if err != nil {
			return o, err
		}
		seconds = append(seconds, took)
	}
	o.All += 2 * len(clients) // those before
	o.Round = median(seconds)
	o.PerSecond = float64(j.Round) / o.Round
	return o, nil
}

// prepare returns how to connect, what to send, and how a right answer ends.
func (j crowdJob) prepare(ctx context.Context) (dial func() (net.Conn, error), request, want []byte, err error) {
	to, err := url.Parse(j.URL)
	if err != nil {
		return nil, nil, nil, err
	}
	dial = func() (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", to.Host) }
	if to.Scheme == "https" {
		text, err := os.ReadFile(j.Trust)
		if err != nil {
			return nil, nil, nil, err
		}
		config := &tls.Config{ServerName: to.Hostname(), RootCAs: x509.NewCertPool()} // and no tickets: each handshake is a full one
		config.RootCAs.AppendCertsFromPEM(text)
		dial = func() (net.Conn, error) { return (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", to.Host) }
	}
	body, length, contentType := j.Message.body(false)
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, nil, nil, err
	}
	connection := "keep-alive"
	if j.Fresh {
		connection = "close"
	}
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nConnection: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n",
		to.RequestURI(), to.Host, connection, contentType, length)
	answer := j.Message.envelope(true)
	_, tail, ok := strings.Cut(answer, contentMark)
	if !ok {
		return nil, nil, nil, errors.New("a message for a crowd has content")
	}
	return dial, append([]byte(head), text...), []byte(contentMark + tail), nil
}

// client is one information system.
type client struct {
	dial    func() (net.Conn, error)
	request []byte
	want    []byte // the end of a right answer, from its content on
	fresh   bool

	conn   net.Conn // nil: none
	reader *bufio.Reader
	body   []byte // of the latest answer
}

// exchange sends the message and reads the answer, which must be the right one.
func (c *client) exchange() (err error) {
	if c.conn == nil {
		if c.conn, err = c.dial(); err != nil {
			return err
		}
		if c.reader == nil {
			c.reader = bufio.NewReader(c.conn)
		} else {
			c.reader.Reset(c.conn)
		}
	}
	if _, err := c.conn.Write(c.request); err != nil {
		return err
	}
	status, closes, err := c.answer()
	if err != nil {
		return err
	}
	if status != "200" || !bytes.HasSuffix(c.body, c.want) || bytes.Contains(c.body[:len(c.body)-len(c.want)], []byte("Fault>")) {
		return fmt.Errorf("a wrong answer, with status %s: %.2000s", status, c.body)
	}
	if c.fresh || closes {
		if c.fresh {
			// The server ends the connection, as the request says: so the port is free for another one at once.
			if n, err := c.reader.ReadByte(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("octet %d behind the answer: %w", n, err)
			}
		}
		c.conn.Close()
		c.conn = nil
	}
	return nil
}

// answer reads an answer into the client's body. Interim ones are passed over.
func (c *client) answer() (status string, closes bool, err error) {
	for {
		line, err := c.line()
		if err != nil {
			return "", false, err
		}
		if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
			return "", false, fmt.Errorf("an answer begins with %q", line)
		}
		status = string(line[len("HTTP/1.1 "):len("HTTP/1.1 200")])
		length, chunked := int64(-1), false
		for {
			if line, err = c.line(); err != nil {
				return "", false, err
			}
			if len(line) == 0 {
				break
			}
			name, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimSpace(value)
			switch {
			case bytes.EqualFold(name, []byte("Content-Length")):
				if length, err = strconv.ParseInt(string(value), 10, 64); err != nil {
					return "", false, err
				}
			case bytes.EqualFold(name, []byte("Transfer-Encoding")):
				chunked = bytes.EqualFold(value, []byte("chunked"))
			case bytes.EqualFold(name, []byte("Connection")):
				closes = bytes.EqualFold(value, []byte("close"))
			}
		}
		c.body = c.body[:0]
		switch {
		case status[0] == '1':
			continue
		case chunked:
			return status, closes, c.chunks()
		case length >= 0:
			return status, closes, c.take(length)
		}
		return "", false, errors.New("an answer does not say how long it is")
	}
}

// line reads a line without its end. It is good until the next one.
func (c *client) line() ([]byte, error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	return bytes.TrimSuffix(line, []byte("\r\n")), nil
}

// take reads n octets of the body.
func (c *client) take(n int64) error {
	if n > maxContent {
		return fmt.Errorf("an answer of %d octets", n)
	}
	begin := len(c.body)
	c.body = append(c.body, make([]byte, n)...)
	_, err := io.ReadFull(c.reader, c.body[begin:])
	return err
}

// chunks reads a body that comes in chunks, without trailers.
func (c *client) chunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(line), 16, 64)
		if err != nil {
			return err
		}
		if err := c.take(n); err != nil {
			return err
		}
		if end, err := c.line(); err != nil || len(end) > 0 {
			return fmt.Errorf("a chunk ends with %q: %w", end, err)
		}
		if n == 0 {
			return nil
		}
	}
}

// hold connects a crowd, lets each exchange a message, and then keeps the connections until it is stopped.
func hold(ctx context.Context, j crowdJob) error {
	clients, err := j.gather(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	fmt.Println(holding)
	<-ctx.Done()
	runtime.KeepAlive(clients)
	return nil
}

// holding is what hold says when all are there.
const holding = "holding"
