// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-fairway/fairway/evidence"
	"github.com/caddy-fairway/fairway/exchange"
	"github.com/caddy-fairway/fairway/peer"
)

// openTimeout bounds the opening of a security server.
const openTimeout = 30 * time.Second

// servers are the open security servers of this process, by the key of their configuration.
var servers = caddy.NewUsagePool()

// usage is one claim on an open security server, which stays open until the last one is released.
type usage struct {
	*exchange.SecurityServer
	key string
}

// use takes a usage of the server and opens it where nobody has. The caller releases it.
//
// The app takes one when it starts and every exchange takes one for its whole life. An exchange may come before the
// app has started, for Caddy starts apps in any order, and after it has stopped, over a connection that was kept:
// it then opens the server itself.
func (s *Server) use() (*usage, error) {
	key, err := s.key()
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", s, err)
	}
	v, _, err := servers.LoadOrNew(key, func() (caddy.Destructor, error) { return s.open() })
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", s, err)
	}
	return &usage{v.(*openServer).SecurityServer, key}, nil
}

// release gives the usage back. It must be called once.
func (u *usage) release() {
	if _, err := servers.Delete(u.key); err != nil {
		caddy.Log().Named("xroad").Error("closing a security server", zap.Stringer("server", u.ID), zap.Error(err))
	}
}

// makeKey finishes the digest with what lies outside the configuration: the certificates are in it already, now come
// the files of guests and, for the development instance, the servers around. It is called when all are provisioned.
func (s *Server) makeKey() (string, error) {
	for _, guest := range s.guests() {
		if v, ok := guest.(Versioned); ok {
			version, err := v.Version()
			if err != nil {
				return "", err
			}
			fmt.Fprintf(s.digest, "%q\n", version)
		}
	}
	if err := json.NewEncoder(s.digest).Encode(s.registered()); err != nil {
		return "", err
	}
	return hex.EncodeToString(s.digest.Sum(nil)), nil
}

// openServer is what the pool holds.
type openServer struct {
	*exchange.SecurityServer
	name string
}

// Destruct closes the server.
func (o *openServer) Destruct() error {
	opened.remove(o)
	return o.Close()
}

// open opens the guests, trust first, for keys are told apart by it, and starts the server.
func (s *Server) open() (_ *openServer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()

	var taken []io.Closer
	defer func() {
		if err != nil {
			for _, c := range slices.Backward(taken) {
				_ = c.Close()
			}
		}
	}()

	x := &exchange.SecurityServer{ID: s.id, Local: s.local, Admission: s.admission, Services: s.transports[1], Clock: time.Now}
	h := Host{
		Name: s.name, ID: s.id, Members: s.members(), Storage: s.storage, Clock: x.Clock, Neighbours: s.registered(),
	}
	if x.Trust, err = s.trust.OpenTrust(ctx, h); err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	taken = append(taken, x.Trust)
	if got := x.Trust.Instance(); got != s.id.Instance {
		return nil, fmt.Errorf("trust: it is of instance %s, the security server of %s", got, s.id.Instance)
	}
	h.Trust = x.Trust
	x.Report = h.report
	if x.Keys, err = s.signer.OpenKeys(ctx, h); err != nil {
		return nil, fmt.Errorf("signer: %w", err)
	}
	if x.Spool, err = s.spool.OpenSpool(ctx, h); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	taken = append(taken, x.Spool)
	if h.Stamper, h.Acceptable, err = s.timestamper.OpenTimestamper(ctx, h); err != nil {
		return nil, fmt.Errorf("timestamper: %w", err)
	}
	if x.Evidence, x.Keep, err = s.evidence.OpenEvidence(ctx, h); err != nil {
		if _, ok := errors.AsType[*evidence.Error](err); ok { // which begins like that itself
			return nil, err
		}
		return nil, fmt.Errorf("evidence: %w", err)
	}
	taken = append(taken, x.Evidence)
	x.Peers = peer.New(peer.Config{
		Trust:       x.Trust,
		Certificate: x.Keys.Auth,
		Transport:   s.transports[0],
		Port:        s.Ports.Peer,
		OCSPPort:    s.Ports.OCSP,
		Clock:       x.Clock,
	})
	if err = x.Start(ctx); err != nil {
		return nil, err
	}
	o := &openServer{x, s.name}
	opened.add(o)
	return o, nil
}
