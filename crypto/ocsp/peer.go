// SPDX-License-Identifier: Apache-2.0

package ocsp

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// Limits between security servers.
const (
	maxCertificates = 16      // that one request asks about
	maxFraming      = 8 << 10 // octets of boundaries and part headers for each of them
)

const responseType = "application/ocsp-response"

// FetchPeer asks a security server, at host:port, for the responses to its own certificates, and returns them in order
// (message-and-transport 5.8). It goes to no other place than that: a redirection is an error. Time limits are those of the client and the context. Whether the responses are acceptable,
// Verify tells.
func FetchPeer(ctx context.Context, client *http.Client, address string, certs []*x509.Certificate) ([][]byte, error) {
	responses, err := fetchPeer(ctx, client, address, certs)
	if err != nil {
		return nil, fmt.Errorf("fetching OCSP responses from security server %q: %w", address, err)
	}
	return responses, nil
}

func fetchPeer(ctx context.Context, client *http.Client, address string, certs []*x509.Certificate) ([][]byte, error) {
	if len(certs) == 0 || len(certs) > maxCertificates {
		return nil, fmt.Errorf("it showed %d certificates; 1 to %d are asked about", len(certs), maxCertificates)
	}
	var query strings.Builder
	for _, c := range certs {
		fmt.Fprintf(&query, "cert=%x&", sha1.Sum(c.Raw))
	}
	for _, c := range certs {
		fmt.Fprintf(&query, "cert_hash=%x&", sha256.Sum256(c.Raw))
	}
	u := url.URL{Scheme: "http", Host: address, Path: "/", RawQuery: strings.TrimSuffix(query.String(), "&")}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "multipart/related")
	answer, err := straight(client).Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", answer.StatusCode)
	}
	kind, parameters, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/related" || parameters["boundary"] == "" {
		return nil, fmt.Errorf("it answered with content type %q, not multipart/related", answer.Header.Get("Content-Type"))
	}
	most := int64(len(certs)) * (maxResponse + maxFraming)
	return readParts(multipart.NewReader(io.LimitReader(answer.Body, most), parameters["boundary"]), len(certs))
}

// readParts reads exactly count responses.
func readParts(parts *multipart.Reader, count int) ([][]byte, error) {
	var responses [][]byte
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) && len(responses) == count {
			return responses, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("it answered about %d of %d certificates", len(responses), count)
		}
		if err != nil {
			return nil, fmt.Errorf("reading part %d: %w", len(responses)+1, err)
		}
		if len(responses) == count {
			return nil, fmt.Errorf("it answered with more than the %d responses asked for", count)
		}
		if kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); kind != responseType {
			return nil, fmt.Errorf("part %d is not of type %s", len(responses)+1, responseType)
		}
		der, err := readLimited(part)
		if err != nil {
			return nil, fmt.Errorf("reading part %d: %w", len(responses)+1, err)
		}
		responses = append(responses, der)
	}
}

// ServePeer answers FetchPeer, and HEAD as a heartbeat. find returns the response to the certificate with that SHA-1;
// its error is not shown to the peer.
func ServePeer(w http.ResponseWriter, r *http.Request, find func(sha1 [20]byte) ([]byte, error)) {
	switch r.Method {
	case http.MethodHead:
		w.WriteHeader(http.StatusOK)
		return
	case http.MethodGet:
	default:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "OCSP responses are asked for by GET", http.StatusMethodNotAllowed)
		return
	}
	body, boundary, err := answerPeer(r.URL.RawQuery, find)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", `multipart/related; type="`+responseType+`"; charset=UTF-8; boundary=`+boundary)
	w.Write(body) //nolint:errcheck // the peer has gone, and nobody is left to tell
}

func answerPeer(query string, find func(sha1 [20]byte) ([]byte, error)) (body []byte, boundary string, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, "", errors.New("the query cannot be read")
	}
	hashes := values["cert"]
	if len(hashes) == 0 || len(hashes) > maxCertificates {
		return nil, "", fmt.Errorf("the query has %d parameters \"cert\"; 1 to %d are answered", len(hashes), maxCertificates)
	}
	var b bytes.Buffer
	parts := multipart.NewWriter(&b)
	boundary = "fairway" + parts.Boundary()
	if err := parts.SetBoundary(boundary); err != nil {
		return nil, "", err
	}
	for _, text := range hashes {
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != sha1.Size {
			return nil, "", errors.New("a parameter \"cert\" is not the SHA-1 of a certificate in hexadecimal")
		}
		response, err := find([20]byte(sum))
		if err != nil || len(response) == 0 {
			return nil, "", fmt.Errorf("there is no OCSP response for certificate %x", sum)
		}
		part, err := parts.CreatePart(textproto.MIMEHeader{"Content-Type": {responseType}})
		if err != nil {
			return nil, "", err
		}
		part.Write(response) //nolint:errcheck // into memory
	}
	if err := parts.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), boundary, nil
}
