// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
)

// fairwayOptions are what is special about a pair of Fairways.
type fairwayOptions struct {
	delivery string // what the service and the client are told
	fresh    bool   // a new sender for each run: its first message has SHA-512, for it does not know its peer yet
	spool    string // what the receiver's spool is told
	quota    string // what both spools are told
	rate     string // what the sender is told of its peer
	batch    string // what both are told of signatures
	evidence string // where both keep evidence; empty: on disk
	keys     string // which keys the members have: rsaKeys, or P-256
	places   string // what both are told of exchanges at once
	crowd    bool   // whether both let as many exchanges go on at once as clients may come
	slow     string // how long an operation of the members' keys takes; empty: what it takes
}

// rsaKeys ends the names of the folders in which the members' keys are RSA-2048.
const rsaKeys = "-rsa"

// fairway returns how a pair of Fairways is started.
func fairway(o fairwayOptions) func(context.Context, *bench, int) (*contestant, error) {
	return func(ctx context.Context, b *bench, number int) (*contestant, error) {
		return (&fairwayPair{b, o, number}).start(ctx)
	}
}

// fairwayPair writes the configuration of both servers.
type fairwayPair struct {
	b       *bench
	options fairwayOptions
	number  int
}

// start starts both servers. Before each run they carry a small message, so that each knows what the other is; or the
// sender is started anew, so that it does not.
func (f *fairwayPair) start(context.Context) (*contestant, error) {
	name, lab := fmt.Sprintf("fairway-%d", f.number), f.b.lab
	c, err := f.b.startPair(name, f.sender, f.receiver)
	if err != nil {
		return nil, err
	}
	c.name, c.admin, c.url = name, f.port(2000), fmt.Sprintf("http://127.0.0.1:%d/", f.port(8000))
	c.before = func(ctx context.Context) error { return f.b.greet(ctx, c) }
	if f.options.fresh {
		c.before = func(ctx context.Context) error {
			c.sender.stop()
			argv, err := f.sender(filepath.Join(lab.dir, c.sender.name))
			if err != nil {
				return err
			}
			if c.sender, err = lab.start(lab.near, c.sender.name, argv...); err != nil {
				return err
			}
			// It is up when it answers, and it must not see its peer before the run.
			_, _, err = lab.ask(ctx, job{URL: c.url, Knock: true, Patient: true})
			return err
		}
	}
	return c, nil
}

func (f *fairwayPair) port(base int) int { return base + f.number }

// kept says where the evidence of a server is whose files are in place.
func (f *fairwayPair) kept(place string) string {
	if f.options.evidence != "" {
		return f.options.evidence
	}
	return "disk " + filepath.Join(place, "evidence")
}

// caddyfile writes a Caddyfile and returns the command that runs it. Servers ask each other at the ports of this pair.
func (f *fairwayPair) caddyfile(dir, server, evidence, more, sites string) ([]string, error) {
	binary, signer := f.b.binary, "files "+filepath.Join(f.b.instance, server+f.options.keys)
	if f.options.slow != "" {
		binary, signer = f.b.slow, "slow "+filepath.Join(f.b.instance, server+f.options.keys)+" "+f.options.slow
	}
	exchanges := f.options.places
	if f.options.crowd {
		exchanges = "exchanges 4096 {\n\t\t\tpeer 4096\n\t\t\twait 1m\n\t\t}"
	}
	file, err := written(dir, "Caddyfile", fmt.Sprintf(`{
	admin 127.0.0.1:%d
	persist_config off
	grace_period 1h
	auto_https disable_redirects
	storage file_system %[2]s/storage
	xroad {
		ports {
			peer %[3]d
			ocsp %[4]d
		}
		signer %[6]s
		%[9]s
		trust static %[5]s/shared-params.xml
		evidence %[10]s
		%[11]s
%[7]s	}
	servers :%[3]d {
		protocols h1
		strict_sni_host insecure_off
		timeouts {
			read_body_idle 10m
			write_idle 10m
		}
		listener_wrappers {
			xroad_gather
			tls
			xroad_framing
		}
	}
	servers {
		timeouts {
			read_body_idle 10m
			write_idle 10m
		}
		listener_wrappers {
			xroad_framing
		}
	}
}
%[8]s`, f.port(2000), dir, f.port(5500), f.port(6500), f.b.instance, signer, more, sites, f.options.batch, evidence, exchanges))
	return []string{binary, "run", "--config", file, "--adapter", "caddyfile"}, err
}

func (f *fairwayPair) sender(dir string) ([]string, error) {
	return f.caddyfile(dir, "ss1", f.kept(dir), fmt.Sprintf(`		server DEV/GOV/1111/ss1
		spool disk %[1]s/spool {
			%[2]s
		}
		client DEV/GOV/1111/app {
			%[3]s
		}
		peer * {
			%[4]s
		}
`, dir, f.options.quota, f.options.delivery, f.options.rate), fmt.Sprintf(`http://:%d {
	bind 127.0.0.1
	xroad_send
}
`, f.port(8000)))
}

func (f *fairwayPair) receiver(dir string) ([]string, error) {
	argv, err := f.receiving(dir)
	if d := f.b.disk; d != nil && d.bound > 0 {
		argv = append([]string{"env", fmt.Sprintf("GOMEMLIMIT=%d", d.bound*9/10)}, argv...) // as Caddy does in a container of that size
	}
	return argv, err
}

func (f *fairwayPair) receiving(dir string) ([]string, error) {
	return f.caddyfile(dir, "ss2", f.kept(f.b.place(dir)), fmt.Sprintf(`		server DEV/GOV/0000/ss2
		spool disk %[1]s/spool {
			%[2]s
			%[3]s
		}
		service DEV/GOV/0000/registry/echo/v1 {
			allow DEV/GOV/1111/app
			to http://127.0.0.1:%[4]s
			%[5]s
		}
		service DEV/GOV/0000/registry/closed/v1 {
			to http://127.0.0.1:%[4]s
		}
`, f.b.place(dir), f.options.spool, f.options.quota, servicePort, f.options.delivery), fmt.Sprintf(`https://:%d {
	tls {
		get_certificate xroad
		client_auth {
			mode require
			verifier xroad
		}
		alpn http/1.1
	}
	xroad_receive
}
http://:%d {
	xroad_ocsp
}
`, f.port(5500), f.port(6500)))
}
