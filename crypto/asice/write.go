// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"archive/zip"
	"compress/flate"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"
)

// Write writes the container (section 10.1). It copies message and attachments as they come, once each, and holds none of
// them; w needs no seeking. After an error, what was written is no container.
//
// mimetype comes first, stored, without extra field and data descriptor, as the ASiC rule wants. Everything else is
// deflated, for only then may its length stand behind it: X-Road reads containers as a stream, and such a reader cannot
// see where a stored entry ends. Documents are compressed well. Message and attachments are only coded by the frequency
// of their octets: that is several times faster, base64 gets back to the length of what it encodes, and nothing shrinks so
// much that it looks like a bomb to a reader that counts.
//
// A hash chain stands for attachments by their digests, so that a container has one or the other.
func (c *Container) Write(w io.Writer) error {
	whole, err := c.complete()
	if err != nil {
		return err
	}
	a := newArchive(w, c.Time)
	if err := a.mimetype(); err != nil {
		return fmt.Errorf("container: writing %s: %w", mimetypeName, err)
	}
	if err := a.stream(messageName, c.Message, true); err != nil {
		return err
	}
	for _, d := range whole.documents() {
		if *d.octets == nil {
			continue
		}
		if err := a.document(d.name, *d.octets); err != nil {
			return fmt.Errorf("container: writing %s: %w", d.name, err)
		}
	}
	for _, n := range whole.numbers() {
		if err := a.stream(attachmentName(n), c.Attachments[n], false); err != nil {
			return err
		}
	}
	if err := a.zip.Close(); err != nil {
		return fmt.Errorf("container: %w", err)
	}
	return nil
}

// complete returns the container with its manifests, if Open would take it.
func (c *Container) complete() (*Container, error) {
	whole := *c
	whole.manifest, whole.asicManifest = nil, nil
	for _, d := range whole.documents() {
		if len(*d.octets) == 0 {
			*d.octets = nil
		}
	}
	if c.Message == nil {
		return nil, failf(noMessage, "there is no message")
	}
	if err := whole.check(); err != nil {
		return nil, err
	}
	if len(c.Attachments) > 0 && whole.Signature.HashChain != nil {
		return nil, errors.New("container: a hash chain stands for attachments, so none may be beside it")
	}
	if n := len(c.Attachments); n > maxAttachments {
		return nil, fmt.Errorf("container: %d attachments, more than %d", n, maxAttachments)
	}
	for n, open := range c.Attachments {
		if n < 1 || open == nil {
			return nil, fmt.Errorf("container: there is no attachment %d", n)
		}
	}
	whole.manifest = whole.manifestOf()
	if whole.Stamp.HashChainResult != nil {
		whole.asicManifest = whole.asicManifestOf()
	}
	for _, d := range whole.documents() {
		if len(*d.octets) > d.limit {
			return nil, failf(invalid, "%s has %d octets, more than %d", d.name, len(*d.octets), d.limit)
		}
		if d.name != tokenName && !utf8.Valid(*d.octets) {
			return nil, failf(invalid, "%s is not UTF-8", d.name)
		}
	}
	return &whole, nil
}

// numbers returns the numbers of the attachments that are there, ascending.
func (c *Container) numbers() []int { return slices.Sorted(maps.Keys(c.Attachments)) }

// archive is a ZIP file that is being written.
type archive struct {
	zip         *zip.Writer
	time        time.Time
	level       int                   // of compression, of the entry that is created next
	compressors map[int]*flate.Writer // by level: they are large
}

func newArchive(w io.Writer, t time.Time) *archive {
	a := &archive{zip: zip.NewWriter(w), time: t.UTC(), compressors: make(map[int]*flate.Writer)}
	a.zip.RegisterCompressor(zip.Deflate, a.compressor)
	a.zip.SetComment("mimetype=" + MediaType)
	return a
}

func (a *archive) compressor(w io.Writer) (io.WriteCloser, error) {
	if c := a.compressors[a.level]; c != nil {
		c.Reset(w)
		return c, nil
	}
	c, err := flate.NewWriter(w, a.level)
	a.compressors[a.level] = c
	return c, err
}

// mimetype writes the first entry.
func (a *archive) mimetype() error {
	h := &zip.FileHeader{
		Name: mimetypeName, Method: zip.Store, CreatorVersion: 20, ReaderVersion: 10,
		CRC32:            crc32.ChecksumIEEE([]byte(MediaType)),
		CompressedSize64: uint64(len(MediaType)), UncompressedSize64: uint64(len(MediaType)),
	}
	//lint:ignore SA1019 Modified comes with an extra field, which this entry must not have
	h.ModifiedDate, h.ModifiedTime = dosTime(a.time)
	w, err := a.zip.CreateRaw(h)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, MediaType)
	return err
}

// create begins an entry.
func (a *archive) create(name string, level int) (io.Writer, error) {
	a.level = level
	const utf8Names = 0x800
	return a.zip.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Flags: utf8Names, Modified: a.time})
}

func (a *archive) document(name string, octets []byte) error {
	w, err := a.create(name, flate.DefaultCompression)
	if err != nil {
		return err
	}
	_, err = w.Write(octets)
	return err
}

// stream writes an entry of any size.
func (a *archive) stream(name string, open Opener, isMessage bool) error {
	r, err := open()
	if err != nil {
		return fmt.Errorf("container: opening %s: %w", name, err)
	}
	defer r.Close()
	var from io.Reader = r
	if isMessage {
		from = newMessageReader(r)
	}
	w, err := a.create(name, flate.HuffmanOnly)
	if err == nil {
		_, err = io.Copy(w, from)
	}
	if err != nil {
		return fmt.Errorf("container: writing %s: %w", name, err)
	}
	return nil
}

// dosTime is the time of an entry as ZIP has it without an extra field. The zero time, and what is out of its range, is
// zero.
func dosTime(t time.Time) (date, clock uint16) {
	if t.Year() < 1980 || t.Year() > 2107 {
		return 0, 0
	}
	return uint16(t.Day() + int(t.Month())<<5 + (t.Year()-1980)<<9), uint16(t.Second()/2 + t.Minute()<<5 + t.Hour()<<11)
}
