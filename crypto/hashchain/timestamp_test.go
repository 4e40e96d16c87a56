// SPDX-License-Identifier: Apache-2.0

package hashchain

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/caddy-fairway/fairway/crypto"
)

// stampBatch builds a time-stamp chain over n signature documents.
func stampBatch(t testing.TB, d crypto.Digest, n int) (documents [][]byte, result []byte, chain func(int) []byte) {
	t.Helper()
	var sums [][]byte
	for i := range n {
		documents = append(documents, fmt.Appendf(nil, "signature document %d", i))
		sums = append(sums, d.Sum(documents[i]))
	}
	result, chain, err := BuildTimestamp(sums, d)
	if err != nil {
		t.Fatal(err)
	}
	return documents, result, chain
}

func TestBuildTimestamp(t *testing.T) {
	for _, d := range []crypto.Digest{crypto.SHA256, crypto.SHA384, crypto.SHA512} {
		for _, n := range []int{2, 3, 4, 5, 7, 8, 33, 100} {
			documents, result, chain := stampBatch(t, d, n)
			for i, document := range documents {
				if err := VerifyTimestamp(result, chain(i), document); err != nil {
					t.Errorf("%s: document %d of %d: %v", d, i, n, err)
				}
				if err := VerifyTimestamp(result, chain(i), documents[(i+1)%n]); cause(t, err) != invalidData {
					t.Errorf("%s: the neighbour of document %d of %d: %v", d, i, n, err)
				}
			}
		}
	}
}

// TestBuildTimestampOfMany has the batch of section 9.4, of which only the chains that are wanted are written.
func TestBuildTimestampOfMany(t *testing.T) {
	const n = 10000
	documents, result, chain := stampBatch(t, crypto.SHA512, n)
	for _, i := range []int{0, 1, n/2 + 1, n - 1} {
		if err := VerifyTimestamp(result, chain(i), documents[i]); err != nil {
			t.Errorf("document %d: %v", i, err)
		}
	}
}

func TestBuildTimestampRefuses(t *testing.T) {
	sum := crypto.SHA512.Sum(nil)
	for _, test := range []struct {
		name   string
		sums   [][]byte
		digest crypto.Digest
	}{
		{"nothing", nil, crypto.SHA512},
		{"one signature", [][]byte{sum}, crypto.SHA512},
		{"no method", [][]byte{sum, sum}, 0},
		{"digest of another method", [][]byte{sum, sum[:32]}, crypto.SHA512},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, _, err := BuildTimestamp(test.sums, test.digest); err == nil {
				t.Error("built")
			}
		})
	}
}

// stamped returns the files of a container vector with a batch time-stamp.
func stamped(t testing.TB, name string) (result, chain, signature []byte) {
	t.Helper()
	octets := vector(t, name)
	z, err := zip.NewReader(bytes.NewReader(octets), int64(len(octets)))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		f, err := z.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		octets, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return octets
	}
	return read(TimestampResult[1:]), read(TimestampChain[1:]), read(SignatureDocument[1:])
}

func TestTimestampVectors(t *testing.T) {
	for _, name := range []string{"valid-batch-ts", "valid-non-batch-rest"} {
		t.Run(name, func(t *testing.T) {
			if err := VerifyTimestamp(stamped(t, "asic/"+name+".asice")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAttack29 has time-stamp chains that do not lead to the signature document.
func TestAttack29(t *testing.T) {
	result, chain, signature := stamped(t, "asic/valid-batch-ts.asice")
	_, _, other := stamped(t, "asic/valid-non-batch-rest.asice")
	otherResult, otherChain, _ := stamped(t, "asic/valid-non-batch-rest.asice")
	change := func(octets []byte, from, to string) []byte {
		if !bytes.Contains(octets, []byte(from)) {
			t.Fatalf("there is no %s", from)
		}
		return bytes.ReplaceAll(octets, []byte(from), []byte(to))
	}
	for _, test := range []struct {
		name                     string
		result, chain, signature []byte
		want                     string
	}{
		{"untouched", result, chain, signature, ""},
		{"one octet of the signature document", result, chain, change(signature, "<ds:SignatureValue", "<ds:SignatureValue "), invalidData},
		{"another signature document", result, chain, other, invalidData},
		{"the chain of another batch", result, otherChain, other, invalidTop},
		{"the result of another batch", otherResult, chain, signature, invalidTop},
		{"leads to another file", result, change(chain, SignatureDocument, "/message.xml"), signature, invalidURI},
		{"leads to the result", result, change(chain, SignatureDocument, TimestampResult), signature, invalidURI},
		{"leads to the chain", result, change(chain, SignatureDocument, TimestampChain), signature, invalidData},
		{"result names another chain", change(result, TimestampChain, crypto.HashChain), chain, signature, invalidURI},
		{"no chain", result, nil, signature, malformed},
		{"no result", nil, chain, signature, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := VerifyTimestamp(test.result, test.chain, test.signature); cause(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestTimestampShape has chains that lead from the result to the signature document, and no batch has such.
func TestTimestampShape(t *testing.T) {
	d, signature := crypto.SHA512, []byte("signature document")
	sum, beside := d.Sum(signature), d.Sum([]byte("beside"))
	data := `<DataRef URI="` + SignatureDocument + `"><d:DigestValue>` + b64(sum) + `</d:DigestValue></DataRef>`
	for _, test := range []struct {
		name, items string
		sums        [][]byte
		want        string
	}{
		{"honest", hv(b64(beside)) + data, [][]byte{beside, sum}, ""},
		{"honest, from the right", data + hv(b64(beside)), [][]byte{sum, beside}, ""},
		{"alone", data, [][]byte{sum}, malformed},
		{"twice", data + data, [][]byte{sum, sum}, malformed},
		{"among three", hv(b64(beside)) + data + hv(b64(beside)), [][]byte{beside, sum, beside}, malformed},
		{"not there", hv(b64(beside)) + hv(b64(sum)), [][]byte{beside, sum}, unusedInputs},
		{"of another method", hv(b64(beside)) + strings.Replace(data, "<d:DigestValue>", `<d:DigestMethod Algorithm="`+d.URI()+`"/><d:DigestValue>`, 1),
			[][]byte{beside, sum}, malformed},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := resultDocument(TimestampChain, step(d, test.sums...), d)
			chain := document512(`<HashStep id="STEP0">` + test.items + `</HashStep>`)
			if err := VerifyTimestamp(result, []byte(chain), signature); cause(t, err) != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
