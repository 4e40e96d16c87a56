// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"encoding/json"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/dustin/go-humanize"
)

// parseOption sets up a security server from Caddyfile tokens. The option may stand several times, each with another
// name. Sizes and durations are written for humans; unknown words, and words and identifiers that stand twice, are
// errors. Syntax:
//
//	xroad [NAME] {
//		server ID
//		ports {
//			peer PORT
//			ocsp PORT
//		}
//		signer      dev [anywhere] | files DIR
//		batch       auto|off|on [MEMBER…]
//		trust       dev [anywhere] | static FILE | globalconf DIR
//		spool       disk [DIR] {…} | memory [SIZE]
//		evidence    disk [DIR] {…} | none
//		timestamper none
//		exchanges [N] {
//			peer N
//			wait DURATION
//		}
//		peer ID|* {
//			signature    direct|chain
//			direct_limit SIZE
//			timeout      DURATION
//			rate         SIZE
//		}
//		client ID {
//			caller certificate FILE…|tls|any
//			delivery strict|gated
//			keepalive DURATION
//		}
//		localgroup CODE {
//			ID…
//		}
//		service ID {
//			allow ID|globalgroup CODE|localgroup CODE
//			to URL {
//				certificate FILE…
//				insecure_any
//			}
//			delivery strict|gated|file DIR {
//				keep DURATION
//			}
//			timeout  DURATION
//			limit    SIZE
//			disabled NOTICE
//		}
//	}
func parseOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if earlier, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(earlier.Value, app); err != nil {
			return nil, err
		}
	}
	d.Next() // consume the option's name
	var name string
	if d.NextArg() {
		name = d.Val()
	}
	if _, ok := app.Servers[name]; ok {
		return nil, d.Errf("there is an xroad option named '%s' already: give each a name of its own", name)
	}
	if d.CountRemainingArgs() > 0 {
		return nil, d.ArgErr()
	}
	s := new(Server)
	if err := s.parse(d); err != nil {
		return nil, err
	}
	if app.Servers == nil {
		app.Servers = make(map[string]*Server)
	}
	app.Servers[name] = s
	value, err := json.Marshal(app)
	return httpcaddyfile.App{Name: "xroad", Value: value}, err
}

func (s *Server) parse(d *caddyfile.Dispenser) error {
	return parseBlock(d, words{
		"server": argument(&s.ID),
		"ports": func(d *caddyfile.Dispenser) error {
			return parseBlock(d, words{"peer": port(&s.Ports.Peer), "ocsp": port(&s.Ports.OCSP)}, nil)
		},
		"signer":      guest("signer", "xroad.signers", &s.SignerRaw),
		"trust":       guest("trust store", "xroad.trust_stores", &s.TrustRaw),
		"spool":       guest("spool", "xroad.spools", &s.SpoolRaw),
		"evidence":    guest("evidence store", "xroad.evidence_stores", &s.EvidenceRaw),
		"timestamper": guest("timestamper", "xroad.timestampers", &s.TimestamperRaw),
		"exchanges":   s.Exchanges.parse,
	}, words{
		"batch":      s.parseBatch,
		"peer":       entry(&s.Peers, (*Peer).parse),
		"client":     entry(&s.Clients, (*Client).parse),
		"localgroup": entry(&s.LocalGroups, parseGroup),
		"service":    entry(&s.Services, (*Service).parse),
	})
}

func (s *Server) parseBatch(d *caddyfile.Dispenser) error {
	var mode string
	if !d.Args(&mode) {
		return d.ArgErr()
	}
	members := d.RemainingArgs()
	if len(members) == 0 {
		members = []string{everyone}
	}
	for _, member := range members {
		if _, ok := s.Batch[member]; ok {
			return d.Errf("'batch' stands twice for %s", member)
		}
		if s.Batch == nil {
			s.Batch = make(map[string]string)
		}
		s.Batch[member] = mode
	}
	return nil
}

func (e *Exchanges) parse(d *caddyfile.Dispenser) error {
	if d.CountRemainingArgs() > 0 {
		if err := parseCount(d, &e.All); err != nil {
			return err
		}
	}
	err := parseBlock(d, words{
		"peer": func(d *caddyfile.Dispenser) error { return parseCount(d, &e.Peer) },
		"wait": func(d *caddyfile.Dispenser) error { return parseDuration(d, &e.Wait) },
	}, nil)
	if err == nil && *e == (Exchanges{}) {
		err = d.Errf("exchanges without anything: write exchanges N, or a block")
	}
	return err
}

func (p *Peer) parse(d *caddyfile.Dispenser) error {
	return parseBlock(d, words{
		"signature":    argument(&p.Signature),
		"direct_limit": func(d *caddyfile.Dispenser) error { return parseSize(d, &p.DirectLimit) },
		"timeout":      func(d *caddyfile.Dispenser) error { return parseDuration(d, &p.Timeout) },
		"rate":         func(d *caddyfile.Dispenser) error { return parseSize(d, &p.Rate) },
	}, nil)
}

func (c *Client) parse(d *caddyfile.Dispenser) error {
	return parseBlock(d, words{
		"caller": func(d *caddyfile.Dispenser) error {
			if !d.Args(&c.Caller) {
				return d.ArgErr()
			}
			c.Certificates = d.RemainingArgs()
			return nil
		},
		"delivery":  argument(&c.Delivery),
		"keepalive": func(d *caddyfile.Dispenser) error { return parseDuration(d, &c.KeepAlive) },
	}, nil)
}

func parseGroup(members *[]string, d *caddyfile.Dispenser) error {
	*members = []string{}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		*members = append(append(*members, d.Val()), d.RemainingArgs()...)
		if err := lineEnds(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) parse(d *caddyfile.Dispenser) error {
	return parseBlock(d, words{
		"to": func(d *caddyfile.Dispenser) error {
			s.To = new(To)
			return s.To.parse(d)
		},
		"delivery": s.parseDelivery,
		"timeout":  func(d *caddyfile.Dispenser) error { return parseDuration(d, &s.Timeout) },
		"limit":    func(d *caddyfile.Dispenser) error { return parseSize(d, &s.Limit) },
		"disabled": func(d *caddyfile.Dispenser) error {
			s.Disabled = new(string)
			return argument(s.Disabled)(d)
		},
	}, words{
		"allow": func(d *caddyfile.Dispenser) error {
			var a Subject
			into := &a.Client
			if !d.Args(into) {
				return d.ArgErr()
			}
			switch a.Client {
			case "globalgroup":
				a.Client, into = "", &a.GlobalGroup
			case "localgroup":
				a.Client, into = "", &a.LocalGroup
			}
			if *into == "" && !d.Args(into) {
				return d.ArgErr()
			}
			if slices.Contains(s.Allow, a) {
				return d.Errf("'allow %s' stands twice", a)
			}
			s.Allow = append(s.Allow, a)
			return nil
		},
	})
}

func (s *Service) parseDelivery(d *caddyfile.Dispenser) error {
	if !d.Args(&s.Delivery) {
		return d.ArgErr()
	}
	if s.Delivery != "file" {
		return nil
	}
	s.Files = new(Files)
	if !d.Args(&s.Files.Dir) {
		return d.Errf("delivery file needs a folder: write delivery file DIR")
	}
	return parseBlock(d, words{
		"keep": func(d *caddyfile.Dispenser) error { return parseDuration(d, &s.Files.Keep) },
	}, nil)
}

func (t *To) parse(d *caddyfile.Dispenser) error {
	if !d.Args(&t.URL) {
		return d.ArgErr()
	}
	return parseBlock(d, words{
		"certificate": func(d *caddyfile.Dispenser) error {
			if t.Certificates = d.RemainingArgs(); len(t.Certificates) == 0 {
				return d.ArgErr()
			}
			return nil
		},
		"insecure_any": func(*caddyfile.Dispenser) error {
			t.InsecureAny = true
			return nil
		},
	}, nil)
}

// words are the words that may begin a line of a block, each with what reads the rest of the line and its block.
type words map[string]func(d *caddyfile.Dispenser) error

// parseBlock reads the rest of a line, which must hold nothing but a block, if that. Those words of once may stand
// there once and those of often any number of times.
func parseBlock(d *caddyfile.Dispenser, once, often words) error {
	if d.CountRemainingArgs() > 0 {
		d.NextArg()
		return d.ArgErr()
	}
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word := d.Val()
		parse, ok := once[word]
		if ok && seen[word] {
			return d.Errf("'%s' stands twice", word)
		}
		seen[word] = true
		if !ok {
			if parse, ok = often[word]; !ok {
				known := slices.Sorted(maps.Keys(once))
				known = slices.AppendSeq(known, maps.Keys(often))
				slices.Sort(known)
				return d.Errf("'%s' is unknown here: use %s", word, strings.Join(known, ", "))
			}
		}
		if err := parse(d); err != nil {
			return err
		}
		if err := lineEnds(d); err != nil {
			return err
		}
	}
	return nil
}

// lineEnds returns an error where something is left on the line.
func lineEnds(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.ArgErr()
	}
	if d.NextBlock(d.Nesting()) {
		return d.Errf("there can be no block here")
	}
	return nil
}

// entry reads an entry of a map: its key, and the rest by parse. A key that stands twice is an error.
func entry[T any](m *map[string]T, parse func(*T, *caddyfile.Dispenser) error) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		word := d.Val()
		if !d.NextArg() {
			return d.ArgErr()
		}
		key := d.Val()
		if _, ok := (*m)[key]; ok {
			return d.Errf("'%s %s' stands twice", word, key)
		}
		var value T
		if err := parse(&value, d); err != nil {
			return err
		}
		if *m == nil {
			*m = make(map[string]T)
		}
		(*m)[key] = value
		return nil
	}
}

// guest reads the name of a module and hands the rest to it.
func guest(what, namespace string, raw *json.RawMessage) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if !d.NextArg() {
			return d.ArgErr()
		}
		name := d.Val()
		id := namespace + "." + name
		if _, err := caddy.GetModule(id); err != nil {
			var known []string
			for _, m := range caddy.GetModules(namespace) {
				known = append(known, m.ID.Name())
			}
			return d.Errf("there is no %s '%s' in this version: use %s", what, name, strings.Join(known, ", "))
		}
		module, err := caddyfile.UnmarshalModule(d, id)
		if err != nil {
			return err
		}
		*raw = caddyconfig.JSONModuleObject(module, "module", name, nil)
		return nil
	}
}

func argument(into *string) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		if !d.Args(into) {
			return d.ArgErr()
		}
		return nil
	}
}

func port(into *int) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		var text string
		if !d.Args(&text) {
			return d.ArgErr()
		}
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n == 0 {
			return d.Errf("'%s' is no port: use 1 to 65535", text)
		}
		*into = int(n)
		return nil
	}
}

func parseCount(d *caddyfile.Dispenser, into *int) error {
	if !d.NextArg() {
		return d.ArgErr()
	}
	n, err := strconv.Atoi(d.Val())
	if err != nil || n <= 0 {
		return d.Errf("'%s' is no number of exchanges: write 1 or more", d.Val())
	}
	*into = n
	return nil
}

func parseSize(d *caddyfile.Dispenser, into *int64) error {
	var text string
	if !d.Args(&text) {
		return d.ArgErr()
	}
	n, err := humanize.ParseBytes(text)
	if err != nil || n == 0 || n > math.MaxInt64 {
		return d.Errf("'%s' is no size: write for example 64KiB or 10MiB", text)
	}
	*into = int64(n)
	return nil
}

func parseDuration(d *caddyfile.Dispenser, into *caddy.Duration) error {
	var text string
	if !d.Args(&text) {
		return d.ArgErr()
	}
	n, err := caddy.ParseDuration(text)
	if err != nil || n <= 0 {
		return d.Errf("'%s' is no duration: write for example 30s or 10m", text)
	}
	*into = caddy.Duration(n)
	return nil
}

// oneArgument reads a module's name and the one argument that follows it.
func oneArgument(d *caddyfile.Dispenser, into *string) error {
	d.Next() // consume the module's name
	if !d.Args(into) {
		return d.ArgErr()
	}
	return lineEnds(d)
}

// parseAnywhere reads a module's name and perhaps the word "anywhere".
func parseAnywhere(d *caddyfile.Dispenser) (bool, error) {
	d.Next() // consume the module's name
	if !d.NextArg() {
		return false, lineEnds(d)
	}
	if d.Val() != "anywhere" {
		return false, d.Errf("'%s' is unknown here: use anywhere, or nothing", d.Val())
	}
	return true, lineEnds(d)
}

// parseName reads a directive or module of this package and the name of a security server that may follow it.
func parseName(d *caddyfile.Dispenser, into *string) error {
	d.Next() // consume the directive or the module's name
	if d.NextArg() {
		*into = d.Val()
	}
	return lineEnds(d)
}

// absolute returns a path as errors tell it best: what one is relative to, the working directory, nobody remembers.
func absolute(path string) string {
	if whole, err := filepath.Abs(path); err == nil {
		return whole
	}
	return path
}

// dataFolder returns a default folder of the server of that name.
func dataFolder(name, what string) string {
	if name == "" {
		name = unnamed
	}
	return filepath.Join(caddy.AppDataDir(), "xroad", name, what)
}
