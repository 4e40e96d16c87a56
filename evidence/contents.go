// SPDX-License-Identifier: Apache-2.0

package evidence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
)

// contents reads the kept parts of a record, one after the other, and after them their checksum. It ends in an error
// where a part has not the octets that its size tells.
type contents struct {
	parts []Part
	left  int64 // of the first part
	sum   hash.Hash32
}

func newContents(parts []Part) *contents {
	c := &contents{parts: parts, sum: crc32.New(castagnoli)}
	c.left = c.size()
	return c
}

func (c *contents) size() int64 {
	if len(c.parts) > 0 && c.parts[0].Content != nil {
		return c.parts[0].Size
	}
	return 0
}

// Read reads on. b must have room for the checksum.
func (c *contents) Read(b []byte) (n int, err error) {
	for len(c.parts) > 0 && c.left == 0 {
		if err := c.finish(); err != nil {
			return 0, err
		}
	}
	if len(c.parts) == 0 {
		return len(binary.BigEndian.AppendUint32(b[:0], c.sum.Sum32())), io.EOF
	}
	n, err = io.ReadFull(c.parts[0].Content, b[:min(int64(len(b)), c.left)])
	c.sum.Write(b[:n])
	c.left -= int64(n)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("it ends %d octets early: %w", c.left, io.ErrUnexpectedEOF)
	}
	return n, c.failed(err)
}

// finish sees that the first part is at its end and goes on to the next.
func (c *contents) finish() error {
	if r := c.parts[0].Content; r != nil {
		var more [1]byte
		n, err := io.ReadFull(r, more[:])
		if n > 0 {
			err = errors.New("it has more octets than its size tells")
		}
		if err != io.EOF {
			return c.failed(err)
		}
	}
	c.parts = c.parts[1:]
	c.left = c.size()
	return nil
}

func (c *contents) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading part %s: %w", c.parts[0].Name, err)
}

// appendTo reads all of it.
func (c *contents) appendTo(b []byte) ([]byte, error) {
	for {
		if cap(b)-len(b) < checkSize {
			b = append(b, make([]byte, checkSize)...)[:len(b)]
		}
		n, err := c.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// copyTo copies all of it.
func (c *contents) copyTo(ctx context.Context, w io.Writer) error {
	buffer := make([]byte, copySize)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := c.Read(buffer)
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// stored reads a part that is kept. It opens the file for every reading, so that nobody has to close it: who holds
// many parts holds no files.
type stored struct {
	open func() (*os.File, error)
	at   int64
	left int64
}

// Read implements io.Reader.
func (s *stored) Read(b []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	f, err := s.open()
	if err != nil {
		return 0, fmt.Errorf("evidence: reading a part: %w", err)
	}
	defer f.Close()
	return s.moved(f.ReadAt(b[:min(int64(len(b)), s.left)], s.at))
}

// WriteTo implements io.WriterTo, with one opening for all.
func (s *stored) WriteTo(w io.Writer) (int64, error) {
	if s.left == 0 {
		return 0, nil
	}
	f, err := s.open()
	if err != nil {
		return 0, fmt.Errorf("evidence: reading a part: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(s.at, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.CopyN(w, f, s.left) // the kernel may copy from file to file, or to a connection
	s.at, s.left = s.at+n, s.left-n
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (s *stored) moved(n int, err error) (int, error) {
	s.at, s.left = s.at+int64(n), s.left-int64(n)
	if err == io.EOF {
		if err = nil; n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return n, err
}
