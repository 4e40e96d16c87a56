// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"bytes"
	"errors"
	"io"

	"github.com/caddy-fairway/fairway/peer"
)

// maxBeginning is how much of a request is kept until it is signed. One that is not longer can be sent again.
const maxBeginning = 64 << 10

// beginning reads the message of an information system and keeps what it has read, as long as that is not much.
type beginning struct {
	io.Reader
	octets []byte
	gone   bool      // more has been read than is kept
	line   peer.Line // to which it is being sent; nil: none yet
	broken bool      // it is not read on, because nobody would get it
}

var errBroken = errors.New("the peer has closed the connection")

// Read implements io.Reader. For a connection that is known to be broken nothing more is taken from the information system.
func (b *beginning) Read(p []byte) (int, error) {
	if b.line != nil && b.line.Broken() {
		b.broken = true
		return 0, errBroken
	}
	n, err := b.Reader.Read(p)
	if !b.gone {
		if len(b.octets)+n > maxBeginning {
			b.forget()
		} else {
			b.octets = append(b.octets, p[:n]...)
		}
	}
	return n, err
}

// forget keeps nothing any more.
func (b *beginning) forget() { b.octets, b.gone = nil, true }

// again returns the message from where it began, unless that is gone. It can be had once.
func (b *beginning) again() (message io.Reader, ok bool) {
	if b.gone {
		return nil, false
	}
	kept := b.octets
	b.forget()
	b.line, b.broken = nil, false
	return io.MultiReader(bytes.NewReader(kept), b), true
}
