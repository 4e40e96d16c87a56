// SPDX-License-Identifier: Apache-2.0

package multipart

import (
	"bytes"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVectors reads X-Road's own messages and compares the octets of each part with those that X-Road hashes.
func TestVectors(t *testing.T) {
	folder := filepath.FromSlash("../../shared/vectors/xroad-messages")
	index, err := os.ReadFile(filepath.Join(folder, "cases.json"))
	if err != nil {
		t.Skip("vectors are not beside the repository")
	}
	type part struct {
		ContentType string `json:"content_type"`
		Length      int
		SHA512      string
	}
	var vectors struct {
		Cases []struct {
			File string
			Uses []struct {
				Role        string
				ContentType string `json:"content_type"`
				Expected    string
				Hashed      *struct {
					SOAP        *part
					Attachments []part
				}
			}
		}
	}
	if err := json.Unmarshal(index, &vectors); err != nil {
		t.Fatal(err)
	}
	// leaves opens every multipart, as X-Road does.
	var leaves func(r *Reader) ([]part, error)
	leaves = func(r *Reader) ([]part, error) {
		var parts []part
		for {
			p, err := r.Next()
			if err == io.EOF {
				return parts, nil
			}
			if err != nil {
				return parts, err
			}
			kind := p.Header.Get("content-type")
			c, err := ParseContentType(kind)
			if err != nil && kind != "" {
				return parts, err
			}
			if strings.HasPrefix(c.Type, "multipart/") {
				boundary, _ := c.Param("boundary")
				inner, err := leaves(p.Nested(boundary))
				parts = append(parts, inner...)
				if err != nil {
					return parts, err
				}
				continue
			}
			h := sha512.New()
			n, err := p.WriteTo(h)
			if err != nil {
				return parts, err
			}
			parts = append(parts, part{kind, int(n), base64.StdEncoding.EncodeToString(h.Sum(nil))})
		}
	}
	for _, v := range vectors.Cases {
		for _, u := range v.Uses {
			if !strings.HasPrefix(u.ContentType, "multipart/") {
				continue
			}
			t.Run(v.File+"/"+u.Role, func(t *testing.T) {
				body, err := os.ReadFile(filepath.Join(folder, v.File))
				if err != nil {
					t.Fatal(err)
				}
				c, err := ParseContentType(u.ContentType)
				if err != nil {
					t.Fatal(err)
				}
				boundary, _ := c.Param("boundary")
				got, err := leaves(NewReader(bytes.NewReader(body), boundary, Limits{}))
				if strings.HasPrefix(u.Expected, "accept") && err != nil {
					t.Error(err)
				}
				if u.Hashed == nil {
					return
				}
				want := u.Hashed.Attachments
				if u.Hashed.SOAP != nil {
					want = slices.Insert(want, 0, *u.Hashed.SOAP)
				} else if len(got) > 0 {
					got = got[1:] // rewritten before it is hashed
				}
				if !slices.Equal(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			})
		}
	}
}
