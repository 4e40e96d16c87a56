// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// The tests of this file are the attacks of signature-and-evidence 14.3, by number, on containers. Those on the inside of
// signature documents and hash chains are in packages xades and hashchain.

// repack takes a container vector apart, and puts it together again with changed entries.
func repack(t testing.TB, file string, change func(entries map[string]string)) []byte {
	t.Helper()
	entries := entriesOf(t, vector(t, "asic/"+file+".asice"))
	maps.DeleteFunc(entries, func(name, _ string) bool { return strings.HasSuffix(name, "/") })
	change(entries)
	var z zipFile
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		z.pieces = append(z.pieces, store(name, entries[name]))
	}
	return z.octets()
}

// attack repacks a container vector and checks how it is refused.
func attack(t *testing.T, name, file, want string, change func(entries map[string]string)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		_, err := prove(repack(t, file, change))
		mustBe(t, err, want)
	})
}

// replace changes the one place of an entry that has the text.
func replace(t testing.TB, entries map[string]string, name, old, new string) {
	t.Helper()
	if strings.Count(entries[name], old) != 1 {
		t.Fatalf("%s has %d times %s", name, strings.Count(entries[name], old), old)
	}
	entries[name] = strings.Replace(entries[name], old, new, 1)
}

func TestAttack01MessageChanged(t *testing.T) {
	_, err := prove(vector(t, "asic/wrong-message.asice"))
	mustBe(t, err, "invalid_signature_value")
	attack(t, "one octet", "valid-signed-message", "invalid_signature_value", func(e map[string]string) {
		replace(t, e, messageName, "</SOAP-ENV:Envelope>", "</SOAP-ENV:Envelope>\n")
	})
	attack(t, "through a hash chain", "valid-signed-hashchain", "malformed_signature.invalid_hash_chain_ref", func(e map[string]string) {
		e[messageName] += "\n"
	})
}

func TestAttack02SignatureOverSomethingElse(t *testing.T) {
	_, err := prove(vector(t, "asic/invalid-incorrect-references.asice"))
	mustBe(t, err, "malformed_signature")
}

func TestAttack03Attachments(t *testing.T) {
	const attached = "read/valid-signed-message-with-attachments"
	attack(t, "added to a message", "valid-signed-message", "malformed_signature", func(e map[string]string) { e["attachment1"] = "more" })
	attack(t, "added to attachments", attached, "malformed_signature", func(e map[string]string) { e["attachment3"] = "more" })
	attack(t, "dropped", attached, "invalid_reference", func(e map[string]string) { delete(e, "attachment2") })
	attack(t, "exchanged", attached, "invalid_signature_value", func(e map[string]string) {
		e["attachment1"], e["attachment2"] = e["attachment2"], e["attachment1"]
	})
	attack(t, "renamed", attached, "malformed_signature", func(e map[string]string) {
		e["attachment3"] = e["attachment2"]
		delete(e, "attachment2")
	})
	for _, name := range []string{"attachment", "attachment0", "attachment01", "attachment-1", "attachment+1", "attachment1.xml", "attachment1/x",
		"attachments", "Attachment1", "attachment99999999999999999999"} {
		attack(t, name, "valid-signed-message", "malformed_signature", func(e map[string]string) { e[name] = "more" })
	}
}

func TestAttack05And06And07Chains(t *testing.T) {
	_, err := prove(vector(t, "asic/invalid-signed-hashchain.asice"))
	mustBe(t, err, "malformed_signature.invalid_hash_chain_ref")

	of := func(chain string) *Container {
		return &Container{
			Message: of(string(vector(t, "signatures/message-1.xml"))), Attachments: map[int]Opener{1: of("blaah")},
			Signature: crypto.Signature{XML: vector(t, "signatures/batch-sig.xml"), HashChainResult: vector(t, "signatures/hash-chain-result.xml"),
				HashChain: vector(t, "signatures/"+chain+".xml")},
		}
	}
	p, err := of("hash-chain-1").Verify()
	if mustBe(t, err, ""); err == nil && (len(p.Proved) != 2 || p.Missing != nil || p.Batch) {
		t.Errorf("proved %+v", p.Evidence)
	}
	_, err = of("hash-chain-2").Verify()
	mustBe(t, err, "malformed_signature.invalid_hash_chain_ref")

	// Computed: the top is the same, but the message is not in the chain.
	attack(t, "7: unused message", "valid-signed-hashchain", "malformed_signature.hashchain_unused_inputs", func(e map[string]string) {
		replace(t, e, sigChainName, `URI="/message.xml"`, `URI="/other.xml"`)
	})
}

func TestAttack08UnsignedChain(t *testing.T) {
	p, err := prove(vector(t, "asic/invalid-not-signed-hashchain.asice"))
	if mustBe(t, err, ""); err == nil && !p.Unreferenced {
		t.Error("nobody is warned")
	}
	attack(t, "chain alone", "invalid-not-signed-hashchain", "asic_hash_chain_result_not_found", func(e map[string]string) { delete(e, sigResultName) })
	attack(t, "result alone", "invalid-not-signed-hashchain", "asic_hash_chain_not_found", func(e map[string]string) { e[sigChainName] = " \n" })
	attack(t, "both blank", "invalid-not-signed-hashchain", "asic_hash_chain_result_not_found", func(e map[string]string) { e[sigResultName], e[sigChainName] = "", "" })
	attack(t, "referenced and left out", "valid-signed-hashchain", "malformed_signature", func(e map[string]string) {
		delete(e, sigResultName)
		delete(e, sigChainName)
	})
}

func TestAttack09RolesExchanged(t *testing.T) {
	message := string(vector(t, "signatures/message-1.xml"))
	value := func(text string) string {
		return `<d:DigestValue>` + base64.StdEncoding.EncodeToString(crypto.SHA512.Sum([]byte(text))) + `</d:DigestValue>`
	}
	with := func(message, items string, attachments map[int]Opener) (*Proof, error) {
		c := &Container{Message: of(message), Attachments: attachments,
			Signature: crypto.Signature{XML: vector(t, "signatures/batch-sig.xml"), HashChainResult: vector(t, "signatures/hash-chain-result.xml"),
				HashChain: []byte(`<HashChain xmlns="http://cyber.ee/hashchain" xmlns:d="http://www.w3.org/2000/09/xmldsig#"><DefaultDigestMethod Algorithm="` +
					crypto.SHA512.URI() + `"/><HashStep id="STEP0">` + items + `</HashStep></HashChain>`)}}
		return c.Verify()
	}
	// The one reading that nothing can tell from a batch of two: it verifies, and the report gets its notice (14.2).
	p, err := with("blaah", `<HashValue>`+value(message)+`</HashValue><DataRef URI="/message.xml">`+value("blaah")+`</DataRef>`, nil)
	if mustBe(t, err, ""); err == nil && !p.Batch {
		t.Error("nobody is told that a hash chain does not prove a message")
	}
	_, err = with("blaah", `<DataRef URI="/attachment1">`+value(message)+`</DataRef><DataRef URI="/message.xml">`+value("blaah")+`</DataRef>`,
		map[int]Opener{1: of(message)})
	mustBe(t, err, "malformed_signature.malformed_hash_chain")
}

// TestAttack10References: a signature that refers many times to one part costs no more than reading it once, and one that
// refers to very many is refused or handled, but not for ever.
func TestAttack10References(t *testing.T) {
	var items, more strings.Builder
	text := messageText
	value := `<d:DigestValue>` + base64.StdEncoding.EncodeToString(crypto.SHA512.Sum([]byte(text))) + `</d:DigestValue>`
	for i := range 10000 {
		fmt.Fprintf(&items, `<DataRef URI="/message.xml">%s</DataRef>`, value)
		fmt.Fprintf(&more, `<DataRef URI="/attachment%d">%s</DataRef>`, i+1, value)
	}
	opened := 0
	for _, test := range []struct{ name, items, want string }{
		{"the message", items.String(), "malformed_signature.invalid_reference"},
		{"attachments", `<DataRef URI="/message.xml">` + value + `</DataRef>` + more.String(), "malformed_signature.invalid_hash_chain"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := signed(t, crypto.Chain, "one")
			c.Signature.HashChain = []byte(`<HashChain xmlns="http://cyber.ee/hashchain" xmlns:d="http://www.w3.org/2000/09/xmldsig#"><DefaultDigestMethod Algorithm="` +
				crypto.SHA512.URI() + `"/><HashStep id="STEP0">` + test.items + `</HashStep></HashChain>`)
			opened = 0
			c.Message = func() (io.ReadCloser, error) { opened++; return of(text)() }
			_, err := c.Verify()
			mustBe(t, err, test.want)
			if opened != 1 {
				t.Errorf("the message was read %d times", opened)
			}
		})
	}
	t.Run("honest", func(t *testing.T) {
		texts := make([]string, 10000)
		for i := range texts {
			texts[i] = fmt.Sprint("attachment ", i+1)
		}
		c := signed(t, crypto.Chain, texts...)
		p, err := prove(written(t, c))
		if mustBe(t, err, ""); err == nil && len(p.Missing) != len(texts) {
			t.Errorf("%d attachments are missing", len(p.Missing))
		}
		c.Attachments = map[int]Opener{7777: of("attachment 7777")}
		if p, err = c.Verify(); err != nil || len(p.Missing) != len(texts)-1 || len(p.Proved) != 2 {
			t.Errorf("with a file: %v", err)
		}
		c.Attachments = map[int]Opener{7777: of("attachment 7778")}
		_, err = c.Verify()
		mustBe(t, err, "malformed_signature.invalid_hash_chain_ref")
	})
}

// zeros are easy to pack.
var zeros = strings.Repeat("\x00", freeSize+1)

// packedZeros takes time to make.
var packedZeros = sync.OnceValue(func() string { return deflate(zeros) })

// bomb makes an entry of zeros.
func bomb(name string) piece {
	p := store(name, zeros)
	p.data = packedZeros()
	p.both(func(h *head) { h.method, h.packed = deflated, uint32(len(p.data)) })
	return p
}

// at changes an entry of pieces: 0 mimetype, 1 message.xml, 2 META-INF/signatures.xml (with its lengths behind the data),
// 3 the manifest, 4 attachment1, 5 attachment2 (as 2).
func at(i int, change func(p *piece)) func(*zipFile) {
	return func(z *zipFile) { change(&z.pieces[i]) }
}

// adding adds an entry.
func adding(p piece) func(*zipFile) {
	return func(z *zipFile) { z.pieces = append(z.pieces, p) }
}

// renamed makes a foreign entry of that name.
func renamed(name string) func(*zipFile) { return adding(store(name, "x")) }

func TestAttack26ZIP(t *testing.T) {
	type change = func(*zipFile)
	const noMatter = "" // accepted: whoever reads it finds the same
	for _, test := range []struct {
		name   string
		change change
		want   string
	}{
		{"as it is", func(*zipFile) {}, noMatter},
		{"folder", adding(store("META-INF/", "")), noMatter},
		{"foreign entry", renamed("a folder/ein b\u00fccherregal.txt"), noMatter},
		{"no comment", func(z *zipFile) { z.comment = "" }, noMatter},
		{"extra field", at(1, func(p *piece) { p.local.extra = "UT\x05\x00\x01\x00\x00\x00\x00" }), noMatter},
		{"descriptor without signature", at(2, func(p *piece) { p.descriptor = p.descriptor[4:] }), noMatter},
		{"descriptor of ZIP64", at(2, func(p *piece) {
			p.descriptor = descriptorSignature + le32(p.central.crc) + le64(uint64(p.central.packed), uint64(p.central.size))
		}), noMatter},
		{"descriptor of ZIP64 without signature", at(2, func(p *piece) {
			p.descriptor = le32(p.central.crc) + le64(uint64(p.central.packed), uint64(p.central.size))
		}), noMatter},
		{"lengths before and behind", at(2, func(p *piece) {
			p.local.crc, p.local.packed, p.local.size = p.central.crc, p.central.packed, p.central.size
		}), noMatter},
		{"lengths in a ZIP64 field", at(1, func(p *piece) {
			p.both(func(h *head) {
				h.extra = le16(extraZIP64, 16) + le64(uint64(h.size), uint64(h.packed))
				h.size, h.packed = unknown32, unknown32
			})
		}), noMatter},
		{"end of ZIP64", func(z *zipFile) { z.zip64, z.offset = true, unknown32 }, noMatter},
		{"written by Unix", at(1, func(p *piece) { p.central.creator, p.central.attributes = 3, 0x81a4<<16 }), noMatter},

		{"name twice", adding(store(messageName, "other")), invalid},
		{"name twice, the same", adding(store(messageName, messageText)), invalid},
		{"attachment twice", adding(store("attachment1", "one")), invalid},
		{"foreign name twice", func(z *zipFile) { z.pieces = append(z.pieces, store("x", "1"), store("x", "2")) }, invalid},
		{"names differing in case", adding(store("Message.xml", "other")), invalid},
		{"names differing in a folded letter", func(z *zipFile) { z.pieces = append(z.pieces, store("\u017f", "1"), store("s", "2")) }, invalid},
		{"folder of the message's name", adding(store("message.xml/", "")), invalid},
		{"case of a name that is not there", adding(store("Sig-HashChain.xml", "other")), invalid},
		{"dots", renamed("../message.xml"), invalid},
		{"dots inside", renamed("META-INF/../message.xml"), invalid},
		{"absolute", renamed("/message.xml"), invalid},
		{"backslash", renamed(`META-INF\signatures.xml`), invalid},
		{"drive letter", renamed("C:message.xml"), invalid},
		{"no name", renamed(""), invalid},
		{"zero octet in the name", renamed("message.xml\x00.txt"), invalid},
		{"name not UTF-8", renamed("m\xe4ssage"), invalid},
		{"long name", renamed(strings.Repeat("x", maxName+1)), invalid},
		{"second name", at(1, func(p *piece) { p.both(func(h *head) { h.extra = le16(extraUnicodePath, 4) + "othr" }) }), invalid},
		{"second name, in the directory alone", at(1, func(p *piece) { p.central.extra = le16(extraUnicodePath, 4) + "othr" }), invalid},
		{"extra field cut off", at(1, func(p *piece) { p.both(func(h *head) { h.extra = le16(0x5455, 5) + "x" }) }), invalid},
		{"two ZIP64 fields", at(1, func(p *piece) { p.central.extra = strings.Repeat(le16(extraZIP64, 0), 2) }), invalid},
		{"ZIP64 field missing", at(1, func(p *piece) { p.central.size = unknown32 }), invalid},
		{"ZIP64 field cut off", at(1, func(p *piece) { p.central.size, p.central.extra = unknown32, le16(extraZIP64, 0) }), invalid},
		{"symbolic link", at(1, func(p *piece) { p.central.creator, p.central.attributes = 3, 0xa1ff<<16 }), invalid},
		{"folder with octets", renamed("META-INF/"), invalid},

		{"encrypted", at(1, func(p *piece) { p.both(func(h *head) { h.flags |= 1 }) }), invalid},
		{"strongly encrypted", at(1, func(p *piece) { p.both(func(h *head) { h.flags |= 1 << 6 }) }), invalid},
		{"encrypted, in the directory alone", at(1, func(p *piece) { p.central.flags |= 1 }), invalid},
		{"encrypted, in the header alone", at(1, func(p *piece) { p.local.flags |= 1 }), invalid},
		{"headers masked", at(1, func(p *piece) { p.both(func(h *head) { h.flags |= 1 << 13 }) }), invalid},
		{"unknown method", at(1, func(p *piece) { p.both(func(h *head) { h.method = 12 }) }), invalid},

		{"several signatures", adding(store("META-INF/signatures2.xml", "<x/>")), invalid},
		{"several signatures, by the pattern", adding(store("META-INF/old/my-Signatures-1.XML", "<x/>")), invalid},
		{"signature under another name", at(2, func(p *piece) { p.both(func(h *head) { h.name = "META-INF/signatures1.xml" }) }), noSignature},

		{"names disagree", at(1, func(p *piece) { p.local.name = "messagx.xml" }), invalid},
		{"length of names disagrees", at(1, func(p *piece) { p.local.name = "x" }), invalid},
		{"flags disagree", at(1, func(p *piece) { p.local.flags |= 2 }), invalid},
		{"methods disagree", at(4, func(p *piece) { p.local.method = stored }), invalid},
		{"check sums disagree", at(1, func(p *piece) { p.local.crc++ }), invalid},
		{"lengths disagree", at(1, func(p *piece) { p.local.size++ }), invalid},
		{"packed lengths disagree", at(1, func(p *piece) { p.local.packed-- }), invalid},
		{"lengths disagree before a descriptor", at(2, func(p *piece) { p.local.size = 7 }), invalid},
		{"descriptor disagrees", at(2, func(p *piece) { p.descriptor = descriptorSignature + le32(1, p.central.packed, p.central.size) }), invalid},
		{"descriptor's length disagrees", at(2, func(p *piece) {
			p.descriptor = descriptorSignature + le32(p.central.crc, p.central.packed, p.central.size+1)
		}), invalid},
		{"descriptor missing", at(2, func(p *piece) { p.descriptor = "" }), invalid},
		{"descriptor cut", at(2, func(p *piece) { p.descriptor = p.descriptor[:15] }), invalid},
		{"descriptor of another kind", at(2, func(p *piece) { p.descriptor = "PK\x07\x09" + p.descriptor[4:] }), invalid},
		{"descriptor nobody announced", at(1, func(p *piece) {
			p.descriptor = descriptorSignature + le32(p.central.crc, p.central.packed, p.central.size)
		}), invalid},
		{"stored with descriptor", at(0, func(p *piece) {
			p.both(func(h *head) { h.flags |= flagDescriptor })
			p.descriptor = descriptorSignature + le32(p.central.crc, p.central.packed, p.central.size)
		}), invalid},
		{"stored in another length", at(0, func(p *piece) { p.both(func(h *head) { h.size-- }) }), invalid},
		{"longer than both say", at(4, func(p *piece) { p.both(func(h *head) { h.size-- }) }), invalid},
		{"shorter than both say", at(4, func(p *piece) { p.both(func(h *head) { h.size++ }) }), invalid},
		{"document longer than both say", at(3, func(p *piece) { p.both(func(h *head) { h.size-- }) }), invalid},
		{"document shorter than both say", at(3, func(p *piece) { p.both(func(h *head) { h.size++ }) }), invalid},
		{"octets behind what is packed", at(4, func(p *piece) { p.data += "x"; p.both(func(h *head) { h.packed++ }) }), invalid},
		{"packed data cut off", at(4, func(p *piece) { p.data = p.data[:len(p.data)-1]; p.both(func(h *head) { h.packed-- }) }), invalid},
		{"packed data damaged", at(1, func(p *piece) { p.data = "\xff" + p.data[1:] }), invalid},
		{"check sum of a document", at(3, func(p *piece) { p.both(func(h *head) { h.crc++ }) }), invalid},
		{"check sum of the message", at(1, func(p *piece) { p.both(func(h *head) { h.crc++ }) }), invalid},
		{"check sum of an attachment", at(4, func(p *piece) { p.both(func(h *head) { h.crc++ }) }), invalid},
		{"check sum of 0", at(4, func(p *piece) { p.both(func(h *head) { h.crc = 0 }) }), invalid},

		{"bomb", at(4, func(p *piece) { *p = bomb("attachment1") }), invalid},
		{"bomb among entries that nobody reads", adding(bomb("foreign")), invalid},
		{"bomb that lies", at(4, func(p *piece) { *p = bomb("attachment1"); p.both(func(h *head) { h.size = 3 }) }), invalid},
		{"document that is too large", at(2, func(p *piece) { *p = pack(signatureName, zeros[:2<<20+1]) }), invalid},
		{"document that lies", at(2, func(p *piece) { *p = bomb(signatureName); p.both(func(h *head) { h.size = 100 }) }), invalid},
		{"mimetype that is too large", at(0, func(p *piece) { *p = bomb(mimetypeName) }), invalid},
		{"many bombs in one", func(z *zipFile) {
			z.pieces = append(z.pieces, piece{again: true, central: bomb("one").central})
		}, invalid},
		{"entry of many terabytes", at(4, func(p *piece) {
			p.both(func(h *head) {
				h.extra = le16(extraZIP64, 8) + le64(1<<60)
				h.size = unknown32
			})
		}), invalid},
		{"entry of more than all", at(4, func(p *piece) {
			p.central.extra, p.central.packed = le16(extraZIP64, 8)+le64(1<<64-1), unknown32
		}), invalid},

		{"entry that the directory does not know", at(4, func(p *piece) { p.absent = true }), invalid},
		{"last entry that the directory does not know", at(5, func(p *piece) { p.absent = true }), invalid},
		{"octets between entries", at(4, func(p *piece) { p.before = "between" }), invalid},
		{"octets before the directory", func(z *zipFile) { z.between = "between" }, invalid},
		{"octets before the beginning", at(0, func(p *piece) { p.before = "before" }), noMIMEType},
		{"header elsewhere", at(4, func(p *piece) { p.offset = 1 }), invalid},
		{"header behind the end", at(4, func(p *piece) { p.offset = 1 << 30 }), invalid},
		{"entry that reaches into the next", at(4, func(p *piece) { p.both(func(h *head) { h.packed += 50 }) }), invalid},
		{"last entry that reaches into the directory", at(5, func(p *piece) { p.central.packed += 50 }), invalid},
		{"octets behind the end", func(z *zipFile) { z.tail = "x" }, invalid},
		{"another file behind the end", func(z *zipFile) { z.tail = string((&zipFile{pieces: z.pieces}).octets()) }, invalid},
		{"another end in the comment", func(z *zipFile) { z.comment = endSignature + strings.Repeat("\x00", 18) }, invalid},
		{"half an end in the comment", func(z *zipFile) { z.comment = endSignature }, invalid},
		{"more entries than the directory says", func(z *zipFile) { z.count, z.here = 5, 5 }, invalid},
		{"fewer entries than the directory says", func(z *zipFile) { z.count, z.here = 7, 7 }, invalid},
		{"in several pieces", func(z *zipFile) { z.here = 1 }, invalid},
		{"entry of another piece", at(1, func(p *piece) { p.central.disk = 1 }), invalid},
		{"directory of another length", func(z *zipFile) { z.size = 200 }, invalid},
		{"directory elsewhere", func(z *zipFile) { z.offset = 200 }, invalid},
		{"directory behind the end", func(z *zipFile) { z.offset = 1 << 31 }, invalid},
		{"ZIP64 missing", func(z *zipFile) { z.offset = unknown32 }, invalid},
		{"ZIP64 nobody announced", func(z *zipFile) { z.zip64 = true }, invalid},
		{"ZIP64 with another number of entries", func(z *zipFile) { z.zip64, z.offset, z.count64 = true, unknown32, 5 }, invalid},
		{"ZIP64 with very many entries", func(z *zipFile) { z.zip64, z.count, z.here, z.count64 = true, 1<<16-1, 1<<16-1, 1<<64-1 }, invalid},
		{"ZIP64 with a very long directory", func(z *zipFile) { z.zip64, z.size, z.size64 = true, unknown32, 1<<63 }, invalid},
		{"ZIP64 elsewhere", func(z *zipFile) { z.zip64, z.offset, z.locator = true, unknown32, 1 }, invalid},
		{"ZIP64 of another length", func(z *zipFile) { z.zip64, z.offset, z.end64 = true, unknown32, 1 }, invalid},
		{"ZIP64 in several pieces", func(z *zipFile) { z.zip64, z.offset, z.disks = true, unknown32, 1 }, invalid},
		{"too many entries", func(z *zipFile) {
			for i := range maxEntries {
				z.pieces = append(z.pieces, store(fmt.Sprint(i), ""))
			}
		}, invalid},
		{"directory that is too long", func(z *zipFile) {
			for i := range 20 {
				p := store(fmt.Sprint(i), "")
				p.central.extra = le16(0x5455, 60000) + zeros[:60000]
				z.pieces = append(z.pieces, p)
			}
		}, invalid},

		{"message not UTF-8", at(1, func(p *piece) { *p = pack(messageName, "<m>\xff</m>") }), invalid},
		{"message not UTF-8 at its end", at(1, func(p *piece) { *p = pack(messageName, "<m/>\xc3") }), invalid},
		{"signature document not UTF-8", at(2, func(p *piece) { *p = pack(signatureName, "<x>\xff</x>") }), invalid},
		{"manifest not UTF-8", at(3, func(p *piece) { *p = pack(manifestName, "<x>\xff</x>") }), invalid},
	} {
		t.Run(test.name, func(t *testing.T) {
			z := pieces(t)
			test.change(z)
			octets := z.octets()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := prove(octets)
			runtime.ReadMemStats(&after)
			mustBe(t, err, test.want)
			if (p == nil) != (err != nil) {
				t.Errorf("%v and %v", p, err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
				t.Errorf("it took %d octets of memory", n)
			}
		})
	}
	for _, test := range []struct{ file, want string }{{"no-mimetype", noMIMEType}, {"no-message", noMessage}, {"not-asic", noMIMEType}} {
		_, err := opened(vector(t, "asic/read/"+test.file+".asice"))
		mustBe(t, err, test.want)
	}
}

// TestAttack26Total: the entries may be honest one by one, and a bomb together.
func TestAttack26Total(t *testing.T) {
	z := pieces(t)
	one := bomb("")
	one.both(func(h *head) { h.size = freeSize })
	for i := range 20 {
		one.both(func(h *head) { h.name = fmt.Sprint(i) })
		z.pieces = append(z.pieces, one)
	}
	_, err := opened(z.octets())
	mustBe(t, err, invalid)
}

// TestAttack26EveryOctet: whichever octet is changed, the container is refused, or says the same.
func TestAttack26EveryOctet(t *testing.T) {
	good := written(t, stamp(t, signed(t, crypto.Direct, "one", "two")))
	want, err := contents(mustOpen(t, good))
	if err != nil {
		t.Fatal(err)
	}
	manifests := regexp.MustCompile(`anifest\.xml$`) // which nobody reads
	accepted := 0
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		c, err := opened(bad)
		if err == nil {
			_, err = c.Verify()
		}
		if err != nil {
			if cause(err) == "" {
				t.Errorf("octet %d: %v", i, err)
			}
			continue
		}
		accepted++
		got, err := contents(c)
		if err != nil {
			t.Fatal(err)
		}
		for name := range want {
			if got[name] != want[name] && !manifests.MatchString(name) {
				t.Errorf("octet %d: %s is %q", i, name, got[name])
			}
		}
	}
	if accepted > len(good)/8 {
		t.Errorf("%d of %d changes were accepted", accepted, len(good))
	}
}

// TestAttack26Cut: a container that is cut off anywhere is none.
func TestAttack26Cut(t *testing.T) {
	good := written(t, stamp(t, signed(t, crypto.Direct, "one")))
	for i := range good {
		_, err := opened(good[:i])
		if got := cause(err); got != invalid && (got != noMIMEType || i >= 4) {
			t.Errorf("cut at %d: %v", i, err)
		}
	}
}

func TestAttack27Contradiction(t *testing.T) {
	const attached = "read/valid-signed-message-with-attachments"
	// X-Road verifies a direct reference, so this is its code.
	attack(t, "direct", attached, "invalid_signature_value", func(e map[string]string) { e["attachment2"] += "x" })
	attack(t, "direct, empty", attached, "invalid_signature_value", func(e map[string]string) { e["attachment2"] = "" })
	// X-Road only reports these.
	attack(t, "through a hash chain", "valid-signed-hashchain", "malformed_signature.invalid_hash_chain_ref", func(e map[string]string) {
		e["attachment1"] = "other"
	})
	attack(t, "unreferenced by a hash chain", "valid-signed-hashchain", "malformed_signature", func(e map[string]string) { e["attachment2"] = "more" })
	attack(t, "unreferenced", "valid-signed-message", "malformed_signature", func(e map[string]string) { e["attachment1"] = "more" })
}

func TestAttack29TimestampChain(t *testing.T) {
	const file = "valid-batch-ts"
	attack(t, "signature document changed where nothing is signed", file, malformed, func(e map[string]string) { e[signatureName] += "\n" })
	attack(t, "chain of something else", file, malformed, func(e map[string]string) {
		replace(t, e, tsChainName, `URI="/META-INF/signatures.xml"`, `URI="/message.xml"`)
	})
	attack(t, "digest exchanged", file, malformed, func(e map[string]string) {
		e[tsChainName] = regexp.MustCompile(`(DataRef[^>]*>\s*<[^>]*>)[^<]*`).ReplaceAllString(e[tsChainName], "${1}"+
			base64.StdEncoding.EncodeToString(crypto.SHA512.Sum([]byte(e[signatureName]+"x"))))
	})
	attack(t, "another result", file, malformed, func(e map[string]string) {
		other := entriesOf(t, vector(t, "asic/valid-non-batch-rest.asice"))
		e[tsResultName] = other[tsResultName]
	})
	attack(t, "result and chain of another", file, malformed, func(e map[string]string) {
		other := entriesOf(t, vector(t, "asic/valid-non-batch-rest.asice"))
		e[tsResultName], e[tsChainName] = other[tsResultName], other[tsChainName]
	})
	attack(t, "parts step", file, malformed, func(e map[string]string) {
		replace(t, e, tsChainName, "</ns2:HashStep>", `<ns2:DataRef URI="/attachment1"><DigestValue>AAAA</DigestValue></ns2:DataRef></ns2:HashStep>`)
	})
	attack(t, "not XML", file, malformed, func(e map[string]string) { e[tsResultName] = "x" })
	attack(t, "chain missing", file, noChain, func(e map[string]string) { delete(e, tsChainName) })
	attack(t, "result missing", file, noChainResult, func(e map[string]string) { delete(e, tsResultName) })
	attack(t, "token blank", file, noTimestamp, func(e map[string]string) { e[tokenName] = " " })
	for _, test := range []struct{ name, file, entry string }{{"token missing", file, tokenName}, {"no time-stamp", "valid-signed-message", ""}} {
		t.Run(test.name, func(t *testing.T) {
			p, err := prove(repack(t, test.file, func(e map[string]string) {
				delete(e, test.entry)
				e[signatureName] = regexp.MustCompile(`<xades:SignatureTimeStamp>.*</xades:SignatureTimeStamp>`).ReplaceAllString(e[signatureName], "")
			}))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = p.Stamp()
			mustBe(t, err, malformed)
		})
	}
	t.Run("two time-stamps", func(t *testing.T) {
		p, err := prove(repack(t, "valid-signed-message", func(e map[string]string) {
			e[signatureName] = regexp.MustCompile(`<xades:SignatureTimeStamp>.*</xades:SignatureTimeStamp>`).ReplaceAllString(e[signatureName], "$0$0")
		}))
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = p.Stamp()
		mustBe(t, err, malformed)
	})
}

func TestAttack30OldFormats(t *testing.T) {
	_, err := prove(vector(t, "asic/attachments-legacy.asice"))
	mustBe(t, err, noMessage)
	attack(t, "signature of 2012", "valid-signed-message", malformed, func(e map[string]string) {
		e[signatureName] = string(vector(t, "signatures/xades.signature.ts.xml"))
	})
	attack(t, "message under its new name", "attachments-legacy", malformed, func(e map[string]string) {
		for name, text := range e {
			if strings.HasSuffix(name, "-message.xml") {
				e[messageName] = text
			}
		}
	})
}
