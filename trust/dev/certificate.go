// SPDX-License-Identifier: Apache-2.0

package dev

import (
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/trust"
)

// Templates of certificates; serial numbers and times come when they are made.

func certificateOfCA(instance string) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{Country: []string{"FI"}, Organization: []string{organisation}, CommonName: instance + " development CA"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
}

func certificateOfResponder(instance string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{Country: []string{"FI"}, Organization: []string{organisation}, CommonName: instance + " development OCSP"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning},
	}
}

// certificateForSigning has the subject of the FiVRK profile (signature-and-evidence 12).
func certificateForSigning(member ident.Client, server ident.Server) (*x509.Certificate, error) {
	number, err := serialNumber(server.Instance, server.Code, member.Class)
	if err != nil {
		return nil, err
	}
	if member.Member == "" {
		return nil, fmt.Errorf("making a certificate for %q: it names no member", member)
	}
	return &x509.Certificate{
		Subject:  pkix.Name{Country: []string{"FI"}, Organization: []string{organisation}, SerialNumber: number, CommonName: member.Member},
		KeyUsage: x509.KeyUsageContentCommitment,
	}, nil
}

// certificateForAuthentication has the subject of the FiVRK profile, whose common name is a DNS name.
func certificateForAuthentication(server ident.Server) (*x509.Certificate, error) {
	number, err := serialNumber(server.Instance, server.Code, server.Class)
	if err != nil {
		return nil, err
	}
	const host = "localhost"
	return &x509.Certificate{
		Subject:     pkix.Name{Country: []string{"FI"}, Organization: []string{organisation}, SerialNumber: number, CommonName: host},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyAgreement,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{host},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}, nil
}

const organisation = "Fairway development"

// serialNumber joins instance, server code and member class, which the profile splits again.
func serialNumber(parts ...string) (string, error) {
	for _, part := range parts {
		if part == "" || strings.Contains(part, "/") {
			return "", fmt.Errorf("making a certificate: %q, of %q, is empty or has a slash, and the certificate profile cannot tell it", part, parts)
		}
	}
	return strings.Join(parts, "/"), nil
}

func hashOf(cert *x509.Certificate) [sha256.Size]byte { return sha256.Sum256(cert.Raw) }

// members lists all who own a server or have a subsystem on one, each member before its subsystems. They are called by
// their codes.
func members(servers []Server) []trust.Member {
	var all []ident.Client
	for _, s := range servers {
		all = append(all, s.ID.Owner())
		for _, c := range s.Clients {
			all = append(all, c.MemberOf(), c)
		}
	}
	slices.SortFunc(all, func(a, b ident.Client) int {
		return slices.Compare([]string{a.Class, a.Member, a.Subsystem}, []string{b.Class, b.Member, b.Subsystem})
	})
	var list []trust.Member
	for _, c := range slices.Compact(all) {
		list = append(list, trust.Member{ID: c, Name: c.Member, Sub: c.Subsystem})
	}
	return list
}
