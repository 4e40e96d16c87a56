// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// contestant is one way from the consumer to the service.
type contestant struct {
	name   string
	url    string
	trust  string                          // certificate that the consumer expects, over HTTPS
	sender *process                        // in the consumer's namespace; nil: none
	far    *process                        // the receiver, in the service's namespace; nil: none
	before func(ctx context.Context) error // what makes it ready for a run that counts; nil: nothing
	disk   string                          // the receiver's, where it is slow
	fresh  bool                            // small messages come over a new connection each
	admin  int                             // port of Caddy's admin endpoint, in either namespace; 0: none
}

// entrant starts a contestant. Its number gives it ports of its own.
type entrant struct {
	name  string
	start func(ctx context.Context, b *bench, number int) (*contestant, error)
}

// The contestants, in the order of the tables; the first is the one that the others are compared with.
var (
	direct        = entrant{"direct HTTP", startDirect}
	directTLS     = entrant{"direct HTTPS", startDirectTLS}
	caddyPair     = entrant{"stock Caddy pair", startCaddyPair}
	nginxPair     = entrant{"nginx pair", startNginxPair}
	fairwayStrict = entrant{"Fairway strict", fairway(fairwayOptions{})}
	fairwayGated  = entrant{"Fairway gated", fairway(fairwayOptions{delivery: "delivery gated"})}
	fairwaySHA512 = entrant{"Fairway strict, SHA-512", fairway(fairwayOptions{fresh: true})}
	xroadModel    = entrant{"model of X-Road's data path", startModel}

	directFresh    = entrant{"HTTP, no keep-alive", fresh(startDirect)}
	directTLSFresh = entrant{"HTTPS, no keep-alive", fresh(startDirectTLS)}

	fairwayP256       = entrant{"Fairway, P-256", fairway(fairwayOptions{})}
	fairwayOneByOne   = entrant{"Fairway, P-256, batch off", fairway(fairwayOptions{batch: "batch off"})}
	fairwayNothing    = entrant{"Fairway, P-256, evidence off", fairway(fairwayOptions{evidence: "none"})}
	fairwayRSA        = entrant{"Fairway, RSA-2048", fairway(fairwayOptions{keys: rsaKeys})}
	fairwayRSASingles = entrant{"Fairway, RSA-2048, batch off", fairway(fairwayOptions{keys: rsaKeys, batch: "batch off"})}

	everybody = []entrant{direct, directTLS, caddyPair, nginxPair, fairwayStrict, fairwayGated, xroadModel}
)

func startDirect(context.Context, *bench, int) (*contestant, error) {
	return &contestant{url: "http://" + farAddress + ":" + servicePort + "/"}, nil
}

func startDirectTLS(_ context.Context, b *bench, _ int) (*contestant, error) {
	return &contestant{url: "https://" + farAddress + ":" + serviceTLSPort + "/", trust: b.certificate}, nil
}

// fresh has small messages come over a new connection each.
func fresh(start func(context.Context, *bench, int) (*contestant, error)) func(context.Context, *bench, int) (*contestant, error) {
	return func(ctx context.Context, b *bench, number int) (*contestant, error) {
		c, err := start(ctx, b, number)
		if err == nil {
			c.fresh = true
		}
		return c, err
	}
}

// enter starts contestants and lets each carry a small message.
func (b *bench) enter(ctx context.Context, entrants ...entrant) (_ []*contestant, err error) {
	var all []*contestant
	defer func() {
		if err != nil {
			leave(all)
		}
	}()
	for _, e := range entrants {
		b.entered++
		c, err := e.start(ctx, b, b.entered)
		if errors.Is(err, errNoNginx) && b.quick {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", e.name, err)
			continue
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		c.name = e.name
		all = append(all, c)
		if err := b.greet(ctx, c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// greet waits until a contestant carries a small message.
func (b *bench) greet(ctx context.Context, c *contestant) error {
	if _, _, err := b.lab.ask(ctx, job{URL: c.url, Trust: c.trust, Message: message{Size: 100 << 10}, Patient: true}); err != nil {
		return fmt.Errorf("does not start: %w", c.explain(err))
	}
	return nil
}

func leave(all []*contestant) {
	for _, c := range all {
		for _, p := range c.servers() {
			p.stop()
		}
	}
}

// servers returns the processes between consumer and service.
func (c *contestant) servers() (all []*process) {
	for _, p := range []*process{c.sender, c.far} {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// startPair runs the sender in the near namespace and the receiver in the far one. Each gets a folder of its own.
func (b *bench) startPair(name string, sender, receiver func(dir string) ([]string, error)) (*contestant, error) {
	c := new(contestant)
	for _, side := range []struct {
		ns, role string
		argv     func(dir string) ([]string, error)
		process  **process
	}{
		{b.lab.far, "receiver", receiver, &c.far},
		{b.lab.near, "sender", sender, &c.sender},
	} {
		own := name + "-" + side.role
		dir := filepath.Join(b.lab.dir, own)
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			var argv []string
			if argv, err = side.argv(dir); err == nil {
				*side.process, err = b.lab.start(side.ns, own, argv...)
			}
		}
		if err != nil {
			leave([]*contestant{c})
			return nil, err
		}
	}
	return c, nil
}

// written writes a configuration and returns its file.
func written(dir, name, text string) (string, error) {
	file := filepath.Join(dir, name)
	return file, os.WriteFile(file, []byte(text), 0o600)
}
