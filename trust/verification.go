// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-fairway/fairway/ident"
)

// Verification judges evidence of the past by a folder of global configuration, as it was read once: what
// X-Road's verificationconf.zip holds will do (signature-and-evidence 10.4), or the shared parameters of one instance.
// It is safe for concurrent use.
//
// It differs from a Store on purpose: the configuration does not expire, SHA-1 and short keys were good enough, and an
// OCSP response may be dated after the time of judgement. Never judge a message by it.
type Verification struct{ snapshot *snapshot }

// OpenVerification reads the folder. Instances that cannot be read are left out; report, which may be nil, is told why.
// The own instance must be there. Cause: malformed_global_conf.
func OpenVerification(dir string, report func(error)) (*Verification, error) {
	f := folder{dir: dir, past: true}
	s, problems := f.read(true)
	if s == nil {
		return nil, malformed("opening verification data %q: %w", dir, errors.Join(problems...))
	}
	for _, p := range problems {
		if report != nil {
			report(fmt.Errorf("reading verification data %q: %w", dir, p))
		}
	}
	return &Verification{s}, nil
}

// OpenVerificationFile reads the shared parameters of one instance, as OpenStatic does. Cause: malformed_global_conf.
func OpenVerificationFile(file string) (*Verification, error) {
	p, err := readStatic(file)
	if err != nil {
		return nil, fmt.Errorf("opening verification data %q: %w", file, err)
	}
	own, err := newInstance(p)
	if err != nil {
		return nil, malformed("opening verification data %q: %w", file, err)
	}
	own.era = past
	return &Verification{&snapshot{own: own, instances: map[string]*instance{p.Instance: own}, names: []string{p.Instance}}}, nil
}

// Instance returns the own instance, which says how old OCSP responses may be.
func (v *Verification) Instance() string { return v.snapshot.own.Instance() }

// VerifySign judges the certificate of a signature as Store does, at the time of its time-stamp.
func (v *Verification) VerifySign(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) error {
	return v.snapshot.verifySign(cert, extra, responses, client, at)
}

// Judge is VerifySign, and tells on what grounds.
func (v *Verification) Judge(cert *x509.Certificate, extra []*x509.Certificate, responses [][]byte, client ident.Client, at time.Time) (*Grounds, error) {
	i, err := v.snapshot.of(client.Instance, at)
	if err != nil {
		return nil, err
	}
	return i.judgeSign(cert, extra, responses, client, at, i.era)
}

// Authorities returns the time-stamping authorities of an instance, whose tokens count for its members.
func (v *Verification) Authorities(instance string) []TSA {
	return v.snapshot.authorities(instance, time.Time{})
}

// Members lists the members and subsystems of an instance, with their names.
func (v *Verification) Members(instance string) ([]Member, error) {
	return v.snapshot.members(instance, time.Time{})
}
