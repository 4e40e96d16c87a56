// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"crypto/sha512"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/multipart"
)

// TestFieldKept_FR83: messages of any size pass whatever evidence keeps of them; what it does not keep it still proves, by
// digest and size (FR-83). Proving such a record with the original file is for the tests of the commands.
func TestFieldKept_FR83(t *testing.T) {
	sizes := []int64{9_000_000, 11_000_000}
	if large() {
		sizes = append(sizes, 500_000_000)
	}
	const never = 1 << 62
	for _, tt := range []struct {
		evidence         string
		message, largest int64 // what is kept: of the envelope, of an attachment
	}{
		{"evidence disk", never, 10 << 20}, // the default
		{"evidence disk {\nkeep all up to 1GB\n}", never, 1e9},
		{"evidence disk {\nkeep messages\n}", never, 0},
		{"evidence disk {\nkeep digests\n}", 0, 0},
		{"evidence none", -1, -1}, // the last: others have left a folder to look into
	} {
		t.Run(strings.Join(strings.Fields(tt.evidence), " "), func(t *testing.T) {
			service := newOctetService(t)
			config := strings.NewReplacer("to http://127.0.0.1:9000", "to http://"+service.address(), "\t\ttrust dev\n", "\t\ttrust dev\n"+tt.evidence+"\n").Replace(readExample(t))
			if tt.message < 0 {
				config = strings.ReplaceAll(config, "\t\ttimestamper dev\n", "") // which it has not to do
			}
			e := freePorts(t, config)
			run(t, e.config)
			t.Cleanup(func() { caddy.Stop() })
			for _, size := range sizes {
				id := fmt.Sprintf("kept-%d-%d", size, time.Now().UnixNano())
				sum, n, err := digestOf(generated(size, 83))
				if err != nil || n != size {
					t.Fatal(n, err)
				}
				before, after, _ := strings.Cut(form("b", rootPart, filePart+"HERE"), "HERE")
				before = strings.Replace(before, env, request(id), 1)
				arrived := make(chan error, 1)
				service.streams(func(octets io.Reader, conn net.Conn) error {
					arrived <- sameAttachment(octets, sum)
					_, err := io.WriteString(conn, httpAnswer("200 OK", "text/xml", response(request(id))))
					return err
				})
				answer := post(t, e.send, related1, io.MultiReader(strings.NewReader(before), generated(size, 83), strings.NewReader(after)))
				if text, err := io.ReadAll(answer.Body); err != nil || !strings.Contains(string(text), hashed(response(request(id)), request(id))) {
					t.Fatalf("%v: %.600s", err, text)
				}
				if err := <-arrived; err != nil {
					t.Fatal(err)
				}
				for _, server := range []string{"ss1", "ss2"} {
					keptOf(t, server, id, sum, size, tt.message, tt.largest)
				}
			}
		})
	}
}

// sameAttachment reads a body that has one attachment of that digest behind its envelope.
func sameAttachment(body io.Reader, sum string) error {
	r := multipart.NewReader(body, "b", multipart.Limits{})
	if _, err := r.Next(); err != nil {
		return err
	}
	part, err := r.Next()
	if err != nil {
		return err
	}
	hash := sha512.New()
	if _, err := part.WriteTo(hash); err != nil {
		return err
	}
	if string(hash.Sum(nil)) != sum {
		return fmt.Errorf("another attachment")
	}
	_, err = r.Next()
	if err == io.EOF {
		return nil
	}
	return fmt.Errorf("behind the attachment: %v", err)
}

// keptOf compares what a server keeps of a request with what it should: parts of up to so many octets; less than nothing:
// no record.
func keptOf(t *testing.T, server, id, sum string, size, message, largest int64) {
	t.Helper()
	store, err := evidence.OpenRead(filepath.Join(caddy.AppDataDir(), "xroad", server, "evidence"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for record, err := range store.Find(t.Context(), evidence.Query{MessageID: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if record.Response {
			continue
		}
		if message < 0 {
			t.Fatalf("%s keeps a record", server)
		}
		if len(record.Parts) != 2 || len(record.Signature.XML) == 0 {
			t.Fatalf("%s keeps %d parts", server, len(record.Parts))
		}
		for i, most := range []int64{message, largest} {
			p := record.Parts[i]
			if kept := p.Content != nil; kept != (p.Size <= most) {
				t.Errorf("%s, part %s of %d octets: kept is %t", server, p.Name, p.Size, kept)
			}
		}
		if p := record.Parts[1]; p.Size != size || p.Digest == crypto.SHA512 && string(p.Sum) != sum {
			t.Errorf("%s keeps another size or digest of %d octets", server, size)
		}
		return
	}
	if message >= 0 {
		t.Errorf("%s keeps nothing of message %s", server, id)
	}
}
