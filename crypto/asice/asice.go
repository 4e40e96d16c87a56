// SPDX-License-Identifier: Apache-2.0

// Package asice writes and reads ASiC-E containers: ZIP files in which one signed message travels with its proof.
// (signature-and-evidence section 10)
//
// A Container is the same thing on both ways. Open reads one, Write writes one, Verify tells what it proves. None of them
// holds a message or an attachment in memory. To prove what is in a file:
//
//	c, err := asice.Open(file, size)             // is it a container?
//	m, err := c.Message()                        // who claims to have sent it? The X-Road header tells
//	proof, err := c.Verify()                     // was it signed, all of it, and by which certificate?
//	stamped, token, err := proof.Stamp()         // when? Package tsp judges the token, trust the authority
//	err = store.VerifySign(proof.Certificate, …) // was that the claimed sender's certificate, at that time?
//
// A container of the direct form may lack attachments that were not kept. Verify says so by *xades.NeedsFilesError, and
// whoever has the files puts them in by Attach: for Verify, or for Write to complete the container.
package asice

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
)

// MediaType is the media type of containers.
const MediaType = "application/vnd.etsi.asic-e+zip"

// Names of the entries (section 10.1). Attachments have theirs from crypto.Attachment, without its slash.
const (
	mimetypeName     = "mimetype"
	messageName      = "message.xml"
	signatureName    = "META-INF/signatures.xml"
	sigResultName    = "sig-hashchainresult.xml"
	sigChainName     = "sig-hashchain.xml"
	tsResultName     = "ts-hashchainresult.xml"
	tsChainName      = "ts-hashchain.xml"
	manifestName     = "META-INF/manifest.xml"
	asicManifestName = "META-INF/ASiCManifest.xml"
	tokenName        = "META-INF/timestamp.tst"
	attachmentPrefix = "attachment"
)

func attachmentName(n int) string { return crypto.Attachment(n)[1:] }

// attachmentNumber returns the number of the attachment that a URI names, or 0.
func attachmentNumber(uri string) int {
	digits, _ := strings.CutPrefix(uri, "/"+attachmentPrefix)
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || uri != crypto.Attachment(n) {
		return 0
	}
	return n
}

// maxAttachments is how many attachments are written. One signature cannot refer to so many.
const maxAttachments = maxEntries - 20

// Opener opens octets from their beginning. Who calls it closes what it got.
type Opener func() (io.ReadCloser, error)

// Container is one signed message with its proof. It may be read by many at once, if its openers can.
type Container struct {
	// Time is that of the entries: when the message was recorded. Open leaves it zero.
	Time time.Time
	// Message opens the octets that were signed as /message.xml.
	Message Opener
	// Attachments opens the attachments that are there, by number.
	Attachments map[int]Opener
	// Signature is the signature document and the hash chain that is in the container, referenced or not.
	Signature crypto.Signature
	// Stamp is the time-stamp beside the signature document; its fields are nil where that has one inside, or none.
	Stamp Stamp

	manifest, asicManifest []byte
}

// Stamp is the time-stamp of a batch, with what leads from it to one signature document (section 9.1). Without hash chain
// it is a token over the signature value.
type Stamp struct {
	HashChainResult []byte
	HashChain       []byte
	Token           []byte // DER
}

// Attach puts in an attachment that the container lacks. It is an error if it does not.
func (c *Container) Attach(n int, open Opener) error {
	if n < 1 {
		return fmt.Errorf("container: attachments are counted from 1, not %d", n)
	}
	if c.Attachments[n] != nil {
		return fmt.Errorf("container: attachment %d is there", n)
	}
	if c.Attachments == nil {
		c.Attachments = make(map[int]Opener)
	}
	c.Attachments[n] = open
	return nil
}

// Error says why a container was refused.
type Error struct {
	cause string
	err   error
}

// Error implements error.
func (e *Error) Error() string { return "container: " + e.err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.err }

// Cause returns X-Road's cause, such as "asic_message_not_found" (section 10.2). X-Road has none for a ZIP file that
// different programs may read in different ways: that is "asic_invalid_container".
func (e *Error) Cause() string { return e.cause }

// Causes of section 10.2, and of section 7.1 where a signature is concerned.
const (
	noMIMEType      = "asic_mime_type_not_found"
	invalidMIMEType = "asic_invalid_mime_type"
	noMessage       = "asic_message_not_found"
	noSignature     = "asic_signature_not_found"
	noChainResult   = "asic_hash_chain_result_not_found"
	noChain         = "asic_hash_chain_not_found"
	noTimestamp     = "asic_timestamp_not_found"
	noManifest      = "asic_manifest_not_found"
	invalid         = "asic_invalid_container"
	malformed       = "malformed_signature"
	unreadable      = "io_error"
)

func failf(cause, format string, args ...any) error {
	return &Error{cause, fmt.Errorf(format, args...)}
}

// ErrUnstamped: the container has no time-stamp. What it proves it proves for a time that someone else must know.
var ErrUnstamped = errors.New("there is no time-stamp")

// document is an entry that is held in memory.
type document struct {
	name   string
	octets *[]byte // nil: it is not there
	limit  int     // far above what honest ones need
}

// documents are the entries in memory, in the order of section 10.1.
func (c *Container) documents() []document {
	return []document{
		{signatureName, &c.Signature.XML, 2 << 20},
		{sigResultName, &c.Signature.HashChainResult, 16 << 10},
		{sigChainName, &c.Signature.HashChain, 5 << 20},
		{tsResultName, &c.Stamp.HashChainResult, 16 << 10},
		{tsChainName, &c.Stamp.HashChain, 64 << 10},
		{manifestName, &c.manifest, 256 << 10},
		{asicManifestName, &c.asicManifest, 16 << 10},
		{tokenName, &c.Stamp.Token, 256 << 10},
	}
}

// check makes the checks of section 10.2 that follow those of mimetype and message, in their order. Whether there is a
// time-stamp at all is for Proof.Stamp to say: without one, a container still proves who signed.
func (c *Container) check() error {
	if isBlank(c.Signature.XML) {
		return failf(noSignature, "%s is missing or blank", signatureName)
	}
	if err := checkPair(sigResultName, c.Signature.HashChainResult, sigChainName, c.Signature.HashChain); err != nil {
		return err
	}
	if c.Stamp.Token != nil && isBlank(c.Stamp.Token) {
		return failf(noTimestamp, "%s is blank", tokenName)
	}
	if err := checkPair(tsResultName, c.Stamp.HashChainResult, tsChainName, c.Stamp.HashChain); err != nil {
		return err
	}
	for name, octets := range map[string][]byte{manifestName: c.manifest, asicManifestName: c.asicManifest} {
		if octets != nil && isBlank(octets) {
			return failf(noManifest, "%s is blank", name)
		}
	}
	return nil
}

// checkPair checks that a hash chain and its result are both there or both not.
func checkPair(resultName string, result []byte, chainName string, chain []byte) error {
	if result == nil && chain == nil {
		return nil
	}
	if isBlank(result) {
		return failf(noChainResult, "there is %s without %s", chainName, resultName)
	}
	if isBlank(chain) {
		return failf(noChain, "there is %s without %s", resultName, chainName)
	}
	return nil
}

func isBlank(octets []byte) bool { return len(bytes.TrimSpace(octets)) == 0 }
