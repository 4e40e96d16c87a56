// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"golang.org/x/text/encoding/charmap"
)

// inUTF16 writes text as UTF-16 without byte order mark.
func inUTF16(order binary.AppendByteOrder, text string) (b []byte) {
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return b
}

// inCharset writes text in a charset of one octet a character.
func inCharset(t testing.TB, m *charmap.Charmap, text string) []byte {
	t.Helper()
	b, err := m.NewEncoder().Bytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// declaring is base with another encoding in its declaration, and an id.
func declaring(encoding, id string) string {
	text := strings.Replace(base, "msg-0001", id, 1)
	if encoding == "" {
		_, text, _ = strings.Cut(text, "?>\n")
		return text
	}
	return strings.Replace(text, "UTF-8", encoding, 1)
}

func TestEncodings(t *testing.T) {
	const mark = "\xEF\xBB\xBF"
	le, be := binary.LittleEndian, binary.BigEndian
	text := func(parts ...string) []byte { return []byte(strings.Join(parts, "")) }
	with := func(mark string, b []byte) []byte { return append([]byte(mark), b...) }
	for _, c := range []struct {
		name, charset string
		data          []byte
		id            string // or "" if refused
		reason        string
	}{
		{"UTF-8 by default", "", text(declaring("", "ä中😀")), "ä中😀", ""},
		{"UTF-8 declared", "utf-8", text(declaring("utf-8", "ä")), "ä", ""},
		{"UTF-8 by its other name", "UTF8", text(declaring("UTF8", "ä")), "ä", ""},
		{"UTF-8 marked", "UTF-8", text(mark, declaring("", "ä")), "ä", ""},
		{"UTF-8 marked and declared", "", text(mark, declaring("UTF-8", "ä")), "ä", ""},
		{"UTF-16LE marked", "", with("\xFF\xFE", inUTF16(le, declaring("", "ä😀"))), "ä😀", ""},
		{"UTF-16BE marked", "UTF-16", with("\xFE\xFF", inUTF16(be, declaring("", "ä😀"))), "ä😀", ""},
		{"UTF-16LE marked and declared", "utf-16le", with("\xFF\xFE", inUTF16(le, declaring("UTF-16", "ä"))), "ä", ""},
		{"UTF-16BE marked and declared", "UTF-16BE", with("\xFE\xFF", inUTF16(be, declaring("UTF-16BE", "ä"))), "ä", ""},
		{"UTF-16LE declared", "", inUTF16(le, declaring("UTF-16", "ä")), "ä", ""},
		{"UTF-16BE declared", "UTF-16", inUTF16(be, declaring("utf-16be", "ä")), "ä", ""},
		{"ISO-8859-1", "iso-8859-1", inCharset(t, charmap.ISO8859_1, declaring("ISO-8859-1", "ä")), "ä", ""},
		{"ISO-8859-5", "", inCharset(t, charmap.ISO8859_5, declaring("ISO-8859-5", "ж")), "ж", ""},
		{"ISO-8859-15", "", inCharset(t, charmap.ISO8859_15, declaring("ISO-8859-15", "€š")), "€š", ""},
		{"windows-1251", "Windows-1251", inCharset(t, charmap.Windows1251, declaring("windows-1251", "ж")), "ж", ""},
		{"windows-1252", "", inCharset(t, charmap.Windows1252, declaring("Windows-1252", "€")), "€", ""},
		{"windows-1257", "", inCharset(t, charmap.Windows1257, declaring("windows-1257", "ž")), "ž", ""},
		{"US-ASCII", "us-ascii", text(declaring("US-ASCII", "a")), "a", ""},
		{"US-ASCII declared, another in the Content-Type", "utf-8", text(declaring("US-ASCII", "a")), "a", ""},
		{"US-ASCII in the Content-Type alone", "us-ascii", text(declaring("UTF-8", "a")), "a", ""},

		{"octets that are not UTF-8", "", inCharset(t, charmap.ISO8859_1, declaring("UTF-8", "ä")), "", "the octet 0xe4 is not UTF-8"},
		{"octets that are not US-ASCII", "", text(declaring("US-ASCII", "ä")), "", "the octet 0xc3 is not US-ASCII"},
		{"octets that are not those of the Content-Type", "us-ascii", text(declaring("UTF-8", "ä")), "", "the octet 0xc3 is not US-ASCII"},
		{"octets that windows-1252 has not", "", text(declaring("windows-1252", "\x81")), "", "the octet 0x81 is not windows-1252"},
		{"octets that ISO-8859-7 has not", "", text(declaring("ISO-8859-7", "\xFF")), "", "the octet 0xff is not ISO-8859-7"},
		{"half a pair of UTF-16", "", with("\xFE\xFF", bytes.Replace(inUTF16(be, declaring("", "ab")), []byte("\x00a\x00b"), []byte("\xD8\x3Da\x00b"), 1)), "", "is not UTF-16BE"},
		{"UTF-16 cut", "", with("\xFE\xFF", inUTF16(be, declaring("", "a"))[:501]), "", "ends inside a character"},

		{"Content-Type unknown", "x-klingon", []byte(base), "", `the charset "x-klingon" of the Content-Type is not supported`},
		{"Content-Type unsupported", "Shift_JIS", []byte(base), "", `"Shift_JIS"`},
		{"declaration unknown", "", text(declaring("EUC-JP", "a")), "", `the encoding "EUC-JP" of the XML declaration is not supported`},
		{"UTF-32 marked", "", text("\xFF\xFE\x00\x00<\x00\x00\x00"), "", "UTF-32 is not supported"},
		{"UTF-32", "", text("\x00\x00\x00<"), "", "UTF-32 is not supported"},
		{"EBCDIC", "", text("\x4C\x6F\xA7\x94\x93"), "", "EBCDIC is not supported"},
		{"UTF-16 without a word on it", "UTF-16LE", inUTF16(le, declaring("", "a")), "", "the Content-Type says charset UTF-16LE, but the envelope is UTF-8 by default"},
		{"UTF-16 without encoding in its declaration", "UTF-16", inUTF16(le, strings.Replace(base, ` encoding="UTF-8"`, "", 1)), "", "without byte order mark"},
		{"UTF-16 with an instruction only", "", inUTF16(le, "<?a?>"+declaring("", "a")), "", "without byte order mark"},

		{"Content-Type against the default", "ISO-8859-1", text(declaring("", "a")), "", "the Content-Type says charset ISO-8859-1, but the envelope is UTF-8 by default"},
		{"Content-Type against the declaration", "utf-8", text(declaring("ISO-8859-1", "a")), "", "charset UTF-8, but the envelope is ISO-8859-1 by its XML declaration"},
		{"Content-Type against the mark", "utf-8", with("\xFF\xFE", inUTF16(le, declaring("", "a"))), "", "charset UTF-8, but the envelope is UTF-16LE by its byte order mark"},
		{"Content-Type in the other order", "utf-16be", with("\xFF\xFE", inUTF16(le, declaring("", "a"))), "", "charset UTF-16BE, but the envelope is UTF-16LE"},
		{"Content-Type US-ASCII against the mark", "us-ascii", text(mark, declaring("", "a")), "", "charset US-ASCII, but the envelope is UTF-8 by its byte order mark"},
		{"Content-Type UTF-16 against US-ASCII", "utf-16", text(declaring("US-ASCII", "a")), "", "make them agree"},
		{"declaration UTF-16 against the octets", "utf-8", text(declaring("UTF-16", "a")), "", "the XML declaration says UTF-16, but the octets of the envelope are UTF-8"},
		{"declaration UTF-8 against the octets", "", inUTF16(le, base), "", "the XML declaration says UTF-8, but the octets of the envelope are UTF-16LE"},
		{"declaration against the mark", "", text(mark, declaring("ISO-8859-1", "a")), "", "the XML declaration says ISO-8859-1, but the octets of the envelope are UTF-8"},
		{"declaration in the other order", "", with("\xFF\xFE", inUTF16(le, declaring("UTF-16BE", "a"))), "", "says UTF-16BE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := openAll(t, c.data, c.charset)
			switch {
			case c.id == "":
				if got.cause != "invalid_soap" || !strings.Contains(got.err.Error(), c.reason) {
					t.Errorf("%q, want %q", got.err, c.reason)
				}
			case got.err != nil:
				t.Error(got.err)
			case got.header.ID != c.id || !bytes.Equal(got.octets, c.data):
				t.Errorf("%+v", got.header)
			}
		})
	}
}

// TestEncodingLong has characters at every place around the end of the buffer for text.
func TestEncodingLong(t *testing.T) {
	for shift := range 4 {
		text := strings.Repeat(" ", shift) + strings.Repeat("😀ä", 5000)
		data := append([]byte("\xFF\xFE"), inUTF16(binary.LittleEndian, strings.Replace(declaring("", "a"), "<t:getThing/>", "<t:getThing>"+text+"</t:getThing>", 1))...)
		if got := openAll(t, data, "utf-16"); got.err != nil {
			t.Error(got.err)
		}
	}
}
