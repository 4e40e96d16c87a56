// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/shelf"
	"github.com/caddy-fairway/fairway/wire"
)

// Files says where a service gets attachments as files.
type Files struct {
	Dir  string        // a shelf.Store's
	Keep time.Duration // how long those stay that the service wants to keep; 0 is DefaultKeepFiles
}

// DefaultKeepFiles is how long files stay that a service wants to keep.
const DefaultKeepFiles = 24 * time.Hour

// HeaderAttachments names, in a request to a service that gets attachments as files, the manifest. In the answer, "keep"
// leaves the files where they are.
const (
	HeaderAttachments = "X-Road-Attachments"
	keepAttachments   = "keep"
)

// manifestName is the file that says which file is what. It is the last one to be made.
const manifestName = "manifest.json"

// manifest is the file of that name. It ends with the attachments, one a line.
type manifest struct {
	MessageID string `json:"message_id"`
	RequestID string `json:"request_id"`
	Client    string `json:"client"`
	Service   string `json:"service"`
}

// attached is an attachment in a manifest. Its name, length and digest are what was signed; content id, type and encoding
// are as they came.
type attached struct {
	Name        string `json:"name"`
	ContentID   string `json:"content_id"`
	ContentType string `json:"content_type"`
	Encoding    string `json:"content_transfer_encoding"`
	Path        string `json:"path"`
	Length      int64  `json:"length"`
	Digest      string `json:"digest"`
	Sum         string `json:"sum"`
}

// openShelves opens the folders of services that get attachments as files.
func (s *SecurityServer) openShelves() error {
	s.shelves = make(map[*Service]*shelf.Store)
	for _, service := range s.Local.Services {
		if service.Delivery != ByFile {
			continue
		}
		keep := service.Files.Keep
		if keep == 0 {
			keep = DefaultKeepFiles
		}
		store, err := shelf.Open(service.Files.Dir, keep, s.Report)
		if err != nil {
			s.closeShelves()
			return fmt.Errorf("files for service %s: %w", service.ID, err)
		}
		s.shelves[service] = store
	}
	return nil
}

func (s *SecurityServer) closeShelves() {
	for _, store := range s.shelves {
		store.Close()
	}
	s.shelves = nil
}

// forwardFiles hands the envelope of the verified request to the service, and its attachments as files, which are all
// there before the service is called and go when it has answered.
func (x *receiving) forwardFiles(ctx context.Context, m *wire.Message, action string) error {
	folder, err := x.server.shelves[x.service].Create()
	if err != nil {
		return wire.At(wire.AtReceiver, wire.OrElse("io_error", fmt.Errorf("delivering files: %w", err)))
	}
	keep := false
	defer func() {
		end := folder.Remove
		if keep {
			end = folder.Keep
		}
		if err := end(); err != nil && x.server.Report != nil {
			x.server.Report(fmt.Errorf("files of request %s: %w", x.outcome.RequestID, err))
		}
	}()
	if err := x.putFiles(ctx, folder, m); err != nil {
		return wire.At(wire.AtReceiver, wire.OrElse("io_error", fmt.Errorf("delivering files: %w", err)))
	}
	header := serviceHeader(m, action)
	header["Content-Type"] = []string{m.Parts[0].ContentType}
	header[HeaderAttachments] = []string{folder.Path(manifestName)}
	return x.post(ctx, m, outgoing{
		header: header,
		size:   m.Parts[0].Size,
		open: func() (io.ReadSeekCloser, error) {
			octets, err := m.Open()
			if err != nil {
				return nil, err
			}
			return &part{section{octets: octets, offset: m.Parts[0].Offset, left: m.Parts[0].Size}, octets}, nil
		},
		// Whoever keeps the files works with them, whatever becomes of the answer.
		answered: func(h http.Header) { keep = strings.EqualFold(h.Get(HeaderAttachments), keepAttachments) },
	})
}

// putFiles writes the attachments into the folder, and then the manifest.
func (x *receiving) putFiles(ctx context.Context, folder *shelf.Folder, m *wire.Message) error {
	octets, err := m.Open()
	if err != nil {
		return err
	}
	defer octets.Close()
	x.transfer.moves(forwarding, m.Size(), position(octets, m.Size()))
	for n, p := range m.Parts[1:] {
		if _, err := octets.Seek(p.Offset, io.SeekStart); err != nil {
			return err
		}
		if err := folder.Write(ctx, fileName(n), octets, p.Size); err != nil { // as they are: the kernel copies a file
			return err
		}
	}
	head := manifest{m.Header.ID, x.outcome.RequestID, m.Header.Client.String(), m.Header.Service.String()}
	return folder.Complete(manifestName, func(w io.Writer) error { return head.write(w, folder, m.Parts[1:]) })
}

// fileName returns the name of the file of the nth attachment, counted from 0. Nothing that a peer sent is in it.
func fileName(n int) string { return fmt.Sprintf("attachment-%d", n+1) }

func (h manifest) write(w io.Writer, folder *shelf.Folder, attachments []wire.Part) error {
	head, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s,\n\"attachments\": [", head[:len(head)-1]); err != nil {
		return err
	}
	separator := "\n"
	for n, p := range attachments {
		line, err := json.Marshal(attached{
			Name: p.Name, ContentID: p.ContentID, ContentType: p.ContentType, Encoding: p.Encoding,
			Path: folder.Path(fileName(n)), Length: p.Size, Digest: p.Digest.String(), Sum: hex.EncodeToString(p.Sum),
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s%s", separator, line); err != nil {
			return err
		}
		separator = ",\n"
	}
	_, err = io.WriteString(w, "\n]}\n")
	return err
}

// part is a section as the body of a call. Its position may be asked for while it is read.
type part struct {
	section
	octets io.ReadSeekCloser
}

func (p *part) Seek(offset int64, whence int) (int64, error) { return p.octets.Seek(offset, whence) }
func (p *part) Close() error                                 { return p.octets.Close() }
