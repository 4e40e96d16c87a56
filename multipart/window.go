// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"io"
	"sync"
)

// A window is a stream whose next octets can be looked at before they are consumed. A Reader works on one: on the buffer
// over the body, or on a part of another Reader. So octets are copied into memory once, however deep they are nested.
type window interface {
	// ahead returns the octets that come next: at least n, or fewer and the reason. They are valid until the next call.
	ahead(n int) ([]byte, error)
	// skip consumes n octets, no more than the last call of ahead returned.
	skip(n int)
}

const (
	smallBuffer = 16 << 10  // enough for most messages, with their signatures
	largeBuffer = 64 << 10  // once a body filled the small one
	bulkBuffer  = 256 << 10 // once it has had bulkBody octets: then each system call moves that much
	bulkBody    = 2 << 20   // and the larger buffer costs little beside them
)

// buffer is the window over a whole body.
type buffer struct {
	r      io.Reader
	data   []byte
	lo, hi int   // what has been read and not consumed
	read   int64 // of the whole body
	err    error
}

func (b *buffer) ahead(n int) ([]byte, error) {
	for b.hi-b.lo < n {
		if b.err != nil {
			return b.data[b.lo:b.hi], b.err
		}
		b.fill(n)
	}
	return b.data[b.lo:b.hi], nil
}

func (b *buffer) skip(n int) { b.lo += n }

// smallBuffers are those of bodies that have been read to their end.
var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}

// forget gives the memory back, and what has been read and not consumed. The body ends here.
func (b *buffer) forget() {
	if len(b.data) == smallBuffer {
		smallBuffers.Put((*[smallBuffer]byte)(b.data))
	}
	b.data, b.lo, b.hi = nil, 0, 0
	if b.err == nil {
		b.err = io.EOF
	}
}

// fill reads once, after making room for n octets; of a large body until the buffer is full, for a connection gives a record
// of TLS at a time, and whoever writes such pieces on has to gather them again. What it moves is little: no more than
// Readers hold back while they wait for the rest of a delimiter.
func (b *buffer) fill(n int) {
	size := len(b.data)
	switch {
	case size == 0:
		size = smallBuffer
	case b.hi < size: // it was not filled
	case size < largeBuffer:
		size = largeBuffer
	case size < bulkBuffer && b.read >= bulkBody:
		size = bulkBuffer
	}
	if n > size {
		size = max(largeBuffer, 2*n)
	}
	room := b.data
	if size == smallBuffer && len(room) == 0 {
		room = smallBuffers.Get().(*[smallBuffer]byte)[:]
	} else if size > len(room) {
		room = make([]byte, size)
	}
	b.hi = copy(room, b.data[b.lo:b.hi])
	b.data, b.lo = room, 0
	for idle := 0; idle < 100; idle++ {
		k, err := b.r.Read(b.data[b.hi:])
		if k < 0 || k > len(b.data)-b.hi {
			break
		}
		b.hi += k
		b.read += int64(k)
		if b.err = err; err != nil || b.hi == len(b.data) || k > 0 && len(b.data) < bulkBuffer {
			return
		}
		if k > 0 {
			idle = 0
		}
	}
	b.err = io.ErrNoProgress
}
