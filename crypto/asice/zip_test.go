// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// head is what is said of an entry, once before its data and once in the directory.
type head struct {
	creator, flags, method, disk uint16
	crc, packed, size            uint32
	attributes                   uint32
	name, extra                  string
}

// piece is an entry of a ZIP file that is put together by hand.
type piece struct {
	local, central head
	before, data   string // before: octets in front of its header
	descriptor     string
	offset         int64 // in the directory, added to the true one
	again          bool  // in the directory, the offset is that of the first piece
	absent         bool  // the directory does not have it
}

// zipFile is a ZIP file that is put together by hand.
type zipFile struct {
	pieces                []piece
	between, tail         string // octets before the directory and behind everything
	comment               string
	count, size, offset   uint32 // in place of the true numbers, where they are not 0
	zip64                 bool
	here                  uint16
	count64, size64       uint64
	locator, end64, disks uint32 // added to what is right
}

// store makes an entry that is stored.
func store(name, text string) piece {
	h := head{name: name, crc: crc32.ChecksumIEEE([]byte(text)), packed: uint32(len(text)), size: uint32(len(text))}
	return piece{local: h, central: h, data: text}
}

// pack makes an entry that is deflated.
func pack(name, text string) piece {
	p := store(name, text)
	p.data = deflate(text)
	p.both(func(h *head) { h.method, h.packed = deflated, uint32(len(p.data)) })
	return p
}

// trail makes an entry of which the lengths stand behind the data.
func trail(name, text string) piece {
	p := pack(name, text)
	h := p.central
	p.descriptor = descriptorSignature + le32(h.crc, h.packed, h.size)
	p.both(func(h *head) { h.flags |= flagDescriptor })
	p.local.crc, p.local.packed, p.local.size = 0, 0, 0
	return p
}

func (p *piece) both(change func(*head)) {
	change(&p.local)
	change(&p.central)
}

func deflate(text string) string {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		panic(err)
	}
	w.Write([]byte(text))
	w.Close()
	return b.String()
}

func le16(numbers ...uint16) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint16(b, n)
	}
	return string(b)
}

func le32(numbers ...uint32) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return string(b)
}

func le64(numbers ...uint64) string {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return string(b)
}

// octets puts the file together.
func (z *zipFile) octets() []byte {
	var b, directory strings.Builder
	count := uint32(0)
	for _, p := range z.pieces {
		b.WriteString(p.before)
		offset := uint32(int64(b.Len()) + p.offset)
		if p.again {
			offset = 0
		}
		l, c := p.local, p.central
		if !p.again {
			b.WriteString(localSignature + le16(20, l.flags, l.method, 0, 0) + le32(l.crc, l.packed, l.size) +
				le16(uint16(len(l.name)), uint16(len(l.extra))) + l.name + l.extra + p.data + p.descriptor)
		}
		if !p.absent {
			count++
			directory.WriteString(directorySignature + le16(c.creator<<8|20, 20, c.flags, c.method, 0, 0) + le32(c.crc, c.packed, c.size) +
				le16(uint16(len(c.name)), uint16(len(c.extra)), 0, c.disk, 0) + le32(c.attributes, offset) + c.name + c.extra)
		}
	}
	b.WriteString(z.between)
	size, offset := uint32(directory.Len()), uint32(b.Len())
	b.WriteString(directory.String())
	end := b.Len()
	if z.zip64 {
		count64, size64 := uint64(count), uint64(size)
		if z.count64 != 0 {
			count64 = z.count64
		}
		if z.size64 != 0 {
			size64 = z.size64
		}
		b.WriteString(end64Signature + le64(44+uint64(z.end64)) + le16(45, 45) + le32(z.disks, z.disks) + le64(count64, count64, size64, uint64(offset)))
		b.WriteString(locator64Signature + le32(0) + le64(uint64(end)+uint64(z.locator)) + le32(1))
	}
	for _, set := range []struct{ to, from *uint32 }{{&count, &z.count}, {&size, &z.size}, {&offset, &z.offset}} {
		if *set.from != 0 {
			*set.to = *set.from
		}
	}
	here := uint16(count)
	if z.here != 0 {
		here = z.here
	}
	b.WriteString(endSignature + le16(0, 0, here, uint16(count)) + le32(size, offset) + le16(uint16(len(z.comment))) + z.comment + z.tail)
	return []byte(b.String())
}

// pieces makes the entries of a container of the direct form with two attachments.
func pieces(t testing.TB) *zipFile {
	c := signed(t, crypto.Direct, "one", "two")
	return &zipFile{pieces: []piece{
		store(mimetypeName, MediaType), pack(messageName, messageText), trail(signatureName, string(c.Signature.XML)),
		pack(manifestName, "<manifest/>"), pack("attachment1", "one"), trail("attachment2", "two"),
	}, comment: "mimetype=" + MediaType}
}
