// SPDX-License-Identifier: Apache-2.0

package console

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddy-fairway/fairway/crypto"
	"github.com/caddy-fairway/fairway/crypto/xades"
	"github.com/caddy-fairway/fairway/ident"
	"github.com/caddy-fairway/fairway/multipart"
	"github.com/caddy-fairway/fairway/spool"
	"github.com/caddy-fairway/fairway/trust"
	"github.com/caddy-fairway/fairway/trust/dev"
	"github.com/caddy-fairway/fairway/wire"
)

// The security servers of the example.
var (
	demoSender   = ident.Server{Instance: "DEV", Class: "GOV", Member: "1111", Code: "ss1"}
	demoReceiver = ident.Server{Instance: "DEV", Class: "GOV", Member: "0000", Code: "ss2"}
)

// demoServers are the security servers of the example as the development instance knows them.
var demoServers = []dev.Server{
	{ID: demoSender, Address: "127.0.0.1", Clients: []ident.Client{demoClient}},
	{ID: demoReceiver, Address: "127.0.0.1", Clients: []ident.Client{demoProvider}},
}

// asPeer sends the message to the receiving security server as ss1 would, with ss1's keys. It shows that the next one,
// asPeerTampering, is refused for its one octet and for nothing else.
func asPeer(ctx context.Context, p *pair, x *exchange, _ io.Writer) error {
	return x.asPeer(ctx, p, func([]byte) error { return nil })
}

// asPeerTampering does the same and changes one octet of the first attachment when all has been signed: what somebody
// who reads along on the way would have to do.
func asPeerTampering(ctx context.Context, p *pair, x *exchange, _ io.Writer) error {
	return x.asPeer(ctx, p, func(body []byte) error {
		start := make([]byte, 64)
		if _, err := io.ReadFull(newGenerated(x.files[0].name, x.files[0].size), start); err != nil {
			return err
		}
		if bytes.Count(body, start) != 1 {
			return errors.New("the attachment does not stand once in the message")
		}
		body[bytes.Index(body, start)] ^= 1
		return nil
	})
}

func (x *exchange) asPeer(ctx context.Context, p *pair, tamper func(body []byte) error) error {
	x.id = newMessageID()
	request := envelope(demoService, x.id, returnAttachments)
	m := newMessage(octets(request), false, sources(x.files)...)
	x.parts, x.size = 1+len(x.files), m.size()

	authority, err := dev.Open(ctx, p.storage(), demoSender.Instance, time.Now)
	if err != nil {
		return err
	}
	store, err := authority.Trust(ctx, demoServers)
	if err != nil {
		return err
	}
	defer store.Close()
	auth, err := authority.AuthKey(ctx, demoSender)
	if err != nil {
		return err
	}
	body, contentType, err := encode(ctx, authority, store, auth, m)
	if err != nil {
		return err
	}
	if err := tamper(body); err != nil {
		return err
	}

	transport := &http.Transport{TLSClientConfig: &tls.Config{
		Certificates:       []tls.Certificate{*auth},
		InsecureSkipVerify: true, // such certificates carry no host names: VerifyConnection knows whose they are
		VerifyConnection: func(cs tls.ConnectionState) error {
			if server, err := store.ServerOf(cs.PeerCertificates[0]); err != nil || server != demoReceiver {
				return errors.Join(fmt.Errorf("%s is not %s", p.peers, demoReceiver), err)
			}
			return nil
		},
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.peers, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set(wire.HeaderHashAlgorithm, crypto.SHA512.String())
	req.Header.Set(wire.HeaderProxyVersion, wire.ProxyVersion)
	req.Header.Set(wire.HeaderOriginalContentType, m.contentType())
	req.Header.Set(wire.HeaderOriginalSOAPAction, quoted(""))
	req.Header.Set(wire.HeaderRequestID, wire.NewRequestID())
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return x.checkPeer(ctx, store, resp, request)
}

// encode is the message as it travels between security servers, signed by the member of the example's client.
func encode(ctx context.Context, a *dev.Authority, store trust.Store, auth *tls.Certificate, m *message) ([]byte, string, error) {
	status, err := store.Status(ctx, auth.Leaf)
	if err != nil {
		return nil, "", err
	}
	key, err := a.SignKey(ctx, demoClient.MemberOf(), demoSender)
	if err != nil {
		return nil, "", err
	}
	signer := &xades.Signer{
		Key: key.Private, Certificate: key.Chain[0], Clock: time.Now,
		OCSP: func(ctx context.Context) ([][]byte, error) {
			response, err := store.Status(ctx, key.Chain[0])
			return [][]byte{response}, err
		},
	}

	var body bytes.Buffer
	e := wire.NewEncoder(&body, crypto.SHA512)
	if err := e.OCSP(status); err != nil {
		return nil, "", err
	}
	write := func(s source, contentType string, put func(multipart.Header, io.Reader) error) error {
		r, err := s.open()
		if err != nil {
			return err
		}
		defer r.Close()
		return put(multipart.NewHeader("content-type", contentType, "Content-ID", "<"+s.id+">"), r)
	}
	if err := write(m.envelope, soapType, e.SOAP); err != nil {
		return nil, "", err
	}
	for _, a := range m.attachments {
		if err := write(a, a.contentType, e.Attachment); err != nil {
			return nil, "", err
		}
	}
	signature, err := signer.Sign(ctx, wire.SignedParts(e.Parts()), crypto.Direct)
	if err != nil {
		return nil, "", err
	}
	if err := e.Sign(signature); err != nil {
		return nil, "", err
	}
	return body.Bytes(), e.ContentType(), nil
}

// checkPeer reads and verifies what the receiving security server answered, as a sending one does.
func (x *exchange) checkPeer(ctx context.Context, store trust.Store, resp *http.Response, request []byte) error {
	room := spool.NewMemory(maxFault + x.size)
	defer room.Close()
	d := wire.Decoder{Place: wire.AtSender, Digest: crypto.SHA512, Spool: room}
	m, err := d.Decode(ctx, wire.Incoming{
		ContentType: resp.Header.Get("Content-Type"),
		Original:    resp.Header.Get(wire.HeaderOriginalContentType),
		Body:        resp.Body,
	}, func(*wire.Message) error { return nil })
	if err != nil {
		return err
	}
	defer m.Discard()
	if m.FaultCode == "" {
		if _, err := m.Verify(new(xades.Verifier), store, demoService.Client, time.Now()); err != nil {
			return err
		}
	}
	body, err := m.Open()
	if err != nil {
		return err
	}
	defer body.Close()
	a, err := openAnswer(m.ContentType(), body)
	if err != nil {
		return err
	}
	return x.check(a, request)
}
