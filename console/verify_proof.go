// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"crypto/sha512"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/asice"
	"github.com/caddy-fairway/fairway/crypto/tsp"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// verifier proves containers (signature-and-evidence 10.3).
type verifier struct {
	trust *trust.Verification
	at    time.Time // of judgement; zero: that of the time-stamp
}

// finding is what one file proves, or why it proves nothing. Times are in UTC.
type finding struct {
	File   string `json:"file"`
	Proved bool   `json:"proved"`

	// Where it does not prove.
	Code   string   `json:"code,omitempty"` // X-Road's
	Reason string   `json:"reason,omitempty"`
	Needs  []proved `json:"needs,omitempty"` // everything else is proved

	// Where it does.
	Message     *told       `json:"message,omitempty"`
	Signer      *signer     `json:"signer,omitempty"`
	Octets      []proved    `json:"octets,omitempty"`
	ByDigest    []proved    `json:"by_digest_only,omitempty"`
	Certificate []certified `json:"certificates,omitempty"` // the signer's first
	Time        *when       `json:"time,omitempty"`
	Notices     []string    `json:"notices,omitempty"`
	NotProved   []string    `json:"not_proved,omitempty"`
}

type proved struct {
	Name   string `json:"name"`
	Size   *int64 `json:"size,omitempty"` // nil: not known
	Method string `json:"method"`
	Digest string `json:"digest"` // hexadecimal
}

type signer struct {
	Member ident.Client `json:"member"`
	Name   string       `json:"name,omitempty"` // as the configuration has it
	Says   *time.Time   `json:"says_signed_at,omitempty"`
}

type certified struct {
	Subject    string    `json:"subject"`
	Serial     string    `json:"serial"`
	Issuer     string    `json:"issuer"`
	NotBefore  time.Time `json:"not_before"`
	NotAfter   time.Time `json:"not_after"`
	GoodBy     string    `json:"ocsp_responder"`
	ProducedAt time.Time `json:"ocsp_produced_at"`
	ThisUpdate time.Time `json:"ocsp_this_update"`
}

// when is the time for which everything holds.
type when struct {
	At        time.Time  `json:"at"`
	Given     bool       `json:"given"`                // by who asked
	Stamped   *time.Time `json:"stamped_at,omitempty"` // nil: there is no time-stamp
	Authority string     `json:"stamped_by,omitempty"`
	Serial    string     `json:"stamp_serial,omitempty"`
}

// refusal is an error with X-Road's cause.
type refusal struct {
	cause string
	error
}

func (r *refusal) Cause() string { return r.cause }
func (r *refusal) Unwrap() error { return r.error }

func refuse(cause, format string, args ...any) error {
	return &refusal{cause, fmt.Errorf(format, args...)}
}

// verify says what a container proves. It reads everything that is signed, the message twice.
func (v *verifier) verify(c *asice.Container) *finding {
	f := new(finding)
	if err := v.prove(c, f); err != nil {
		needs := f.Needs
		return &finding{Code: causes(err), Reason: err.Error(), Needs: needs}
	}
	f.Proved = true
	return f
}

func (v *verifier) prove(c *asice.Container, f *finding) error {
	parts := watch(c)
	proof, err := c.Verify()
	needs, incomplete := errors.AsType[*xades.NeedsFilesError](err)
	if err != nil && (!incomplete || c.Message == nil) {
		return err
	}
	said, err := readTold(c.Message, parts[crypto.Message])
	if err != nil {
		return err
	}
	if f.Time, err = v.time(proof, said.sender().Instance); err != nil {
		return err
	}
	grounds, err := v.judge(proof, said, f.Time.At)
	if err != nil {
		return err
	}
	if incomplete { // and everything else is proved
		for _, p := range needs.Parts {
			f.Needs = append(f.Needs, byDigest(p))
		}
		return needs
	}

	f.Message = said
	f.Signer = &signer{Member: said.sender().MemberOf(), Name: v.name(said.sender())}
	if !proof.SigningTime.IsZero() {
		at := proof.SigningTime.UTC()
		f.Signer.Says = &at
	}
	for _, name := range slices.SortedFunc(slices.Values(proof.Proved), byNumber) {
		p := parts[name]
		f.Octets = append(f.Octets, proved{Name: name, Size: &p.size, Method: crypto.SHA512.String(), Digest: hex.EncodeToString(p.sum)})
	}
	for _, p := range proof.Missing {
		f.ByDigest = append(f.ByDigest, byDigest(p))
	}
	f.Certificate = certificates(grounds)
	f.notices(proof)
	return nil
}

// byNumber sorts the message before attachments, and these by number.
func byNumber(a, b string) int {
	if a == crypto.Message || b != crypto.Message && len(a) < len(b) {
		return -1
	}
	if b == crypto.Message || len(a) > len(b) {
		return 1
	}
	return bytes.Compare([]byte(a), []byte(b))
}

func byDigest(p crypto.Part) proved {
	return proved{Name: p.Name, Method: p.Digest.String(), Digest: hex.EncodeToString(p.Sum)}
}

// judge judges the certificate of the signature by whoever the message says has sent it. Which of two that is, the message
// may leave open; it is then the one whose certificate it is.
func (v *verifier) judge(proof *asice.Proof, said *told, at time.Time) (*trust.Grounds, error) {
	g, err := v.trust.Judge(proof.Certificate, proof.Extra, proof.OCSP, said.sender(), at)
	if err != nil && said.open && causes(err) == "incorrect_certificate" {
		other := *said
		other.Response = !said.Response
		if g, second := v.trust.Judge(proof.Certificate, proof.Extra, proof.OCSP, other.sender(), at); second == nil {
			*said = other
			return g, nil
		}
	}
	return g, err
}

// sha1Ended is when the last time-stamping authorities stopped to sign with SHA-1 and with keys of 1024 bits.
var sha1Ended = time.Date(2018, 1, 1, 0, 0, 0, 0, time.UTC)

// time judges the time-stamp and decides for what time everything must hold.
func (v *verifier) time(proof *asice.Proof, instance string) (*when, error) {
	stamped, der, err := proof.Stamp()
	if errors.Is(err, asice.ErrUnstamped) && !v.at.IsZero() {
		return &when{At: v.at.UTC(), Given: true}, nil
	}
	if err != nil {
		if errors.Is(err, asice.ErrUnstamped) {
			err = refuse("malformed_signature", "there is no time-stamp that tells when it was signed; --at TIME proves it as of a time that you know from elsewhere")
		}
		return nil, err
	}
	token, err := tsp.ParseToken(der)
	if err != nil {
		return nil, err
	}
	authority, err := token.Verify(stamped, v.authorities(instance), era(token))
	if err != nil {
		return nil, err
	}
	at := token.GenTime.UTC()
	w := &when{At: at, Stamped: &at, Authority: authority.Subject.String(), Serial: token.Serial.Text(16)}
	if !v.at.IsZero() {
		w.At, w.Given = v.at.UTC(), true
	}
	return w, nil
}

// era is the measure for a token: that of its time.
func era(t *tsp.Token) tsp.Era {
	if t.GenTime.Before(sha1Ended) {
		return tsp.Past
	}
	return tsp.Present
}

// authorities are those whose time-stamps count for members of an instance.
func (v *verifier) authorities(instance string) (all []*x509.Certificate) {
	for _, a := range v.trust.Authorities(instance) {
		all = append(all, a.Certificate)
	}
	return all
}

// name returns the name of a member in the configuration, or "".
func (v *verifier) name(c ident.Client) string {
	members, err := v.trust.Members(c.Instance)
	if err != nil {
		return ""
	}
	for _, m := range members {
		if m.ID == c.MemberOf() {
			return m.Name
		}
	}
	return ""
}

func certificates(g *trust.Grounds) []certified {
	var all []certified
	for i, c := range g.Path {
		status := g.Status[i]
		all = append(all, certified{
			Subject: c.Subject.String(), Serial: c.SerialNumber.Text(16), Issuer: c.Issuer.String(),
			NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(),
			GoodBy: status.Responder.Subject.String(), ProducedAt: status.ProducedAt.UTC(), ThisUpdate: status.ThisUpdate.UTC(),
		})
	}
	return all
}

// clocksDiffer is how much later than the time of judgement an OCSP response may be without a word on it.
const clocksDiffer = 5 * time.Minute

// notices says what one should know of the proof, and what it is none of (sections 14.1 and 14.2).
func (f *finding) notices(proof *asice.Proof) {
	if proof.Batch {
		f.Notices = append(f.Notices, "the signature covers a list of digests, of which that of this message is one: it proves that the signer "+
			"signed a digest of these octets, and not that they were meant as a message of their own; they might have been an attachment to another")
	}
	if proof.Unreferenced {
		f.Notices = append(f.Notices, "there is a hash chain that the signature does not refer to; it proves nothing, and was not looked at")
	}
	if f.Time.Given && f.Time.Stamped != nil {
		f.Notices = append(f.Notices, "the certificate was judged as of the time that you gave, and not as of the time-stamp")
	}
	for _, c := range f.Certificate {
		if c.ThisUpdate.After(f.Time.At.Add(clocksDiffer)) {
			f.Notices = append(f.Notices, fmt.Sprintf("the OCSP response for serial %s tells the status of %s, and the time of judgement is earlier: %s",
				c.Serial, utc(c.ThisUpdate), utc(f.Time.At)))
		}
	}
	if f.Time.Stamped == nil {
		f.NotProved = append(f.NotProved, "when it was signed: there is no time-stamp, and the time is the one that you gave")
	} else {
		f.NotProved = append(f.NotProved, "when exactly it was signed: only that it was before the time-stamp")
	}
	if len(f.ByDigest) > 0 {
		f.NotProved = append(f.NotProved, "what was in the attachments that are known by digest only: --attachment N=FILE proves a file")
	}
	f.NotProved = append(f.NotProved, "that the message arrived, through which security servers it went, and that there was no other with the same id")
}

// watched is octets and what is known of them once they have been read.
type watched struct {
	size int64
	sum  []byte // SHA-512
}

// watch lets the openers of a container note what they read.
func watch(c *asice.Container) map[string]*watched {
	all := make(map[string]*watched)
	put := func(name string, open asice.Opener) asice.Opener {
		if open == nil {
			return nil
		}
		all[name] = new(watched)
		return all[name].by(open)
	}
	c.Message = put(crypto.Message, c.Message)
	for n, open := range c.Attachments {
		c.Attachments[n] = put(crypto.Attachment(n), open)
	}
	return all
}

func (w *watched) by(open asice.Opener) asice.Opener {
	return func() (io.ReadCloser, error) {
		r, err := open()
		if err != nil {
			return nil, err
		}
		return &watching{ReadCloser: r, sum: sha512.New(), watched: w}, nil
	}
}

type watching struct {
	io.ReadCloser
	size int64
	sum  hash.Hash
	*watched
}

func (w *watching) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	w.size += int64(n)
	w.sum.Write(b[:n])
	if err == io.EOF {
		w.watched.size, w.watched.sum = w.size, w.sum.Sum(nil)
	}
	return n, err
}
