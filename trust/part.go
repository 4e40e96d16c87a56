// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// part is what a folder of global configuration tells about one instance: of the own one all, of federated ones the
// shared parameters alone (signature-and-evidence 13.4).
type part struct {
	name string
	own  bool

	looks looks // of the files when they were read
	err   error // what is not taken of them, and why
	content
}

// content is what was read last without an error.
type content struct {
	sum            [sha256.Size]byte // of the shared parameters and their version
	shared         *instance         // nil: there is nothing
	expiries       []expiry
	interval       time.Duration
	skipNextUpdate bool
}

// refresh reads the files if they look otherwise than before, or in any case.
func (p *part) refresh(f *folder, always bool) {
	files := []string{sharedFile}
	if p.own {
		files = append(files, privateFile, nextUpdateFile, fetchIntervalFile, monitoringFile)
	}
	looks := f.look(p.name, files) // first: what changes while it is read is read again the next time
	if !always && p.looks != nil && p.looks.same(looks) {
		return
	}
	p.looks = looks
	c, err := p.read(f)
	switch {
	case err == nil:
		p.content, p.err = c, nil
		if p.own {
			p.err = p.optional(f)
		}
	case p.shared != nil:
		p.err = fmt.Errorf("instance %s stays as it was: %w", p.name, err)
	default:
		p.err = fmt.Errorf("instance %s is left out: %w", p.name, err)
	}
}

// read reads shared and private parameters. A federated instance may have none: then there is nothing, without an error.
func (p *part) read(f *folder) (c content, err error) {
	doc, m, err := p.parameters(f, sharedFile, maxShared)
	if errors.Is(err, fs.ErrNotExist) && !p.own {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	sum := sha256.New()
	sum.Write([]byte{byte(m.version)})
	sum.Write(doc)
	c.sum = [sha256.Size]byte(sum.Sum(nil))
	c.expire(sharedFile, m)
	if c.shared = p.shared; c.shared == nil || c.sum != p.sum {
		if c.shared, err = p.parse(doc, m.version); err != nil {
			return c, fmt.Errorf("reading %s: %w", sharedFile, err)
		}
	}
	if !p.own {
		return c, nil
	}
	doc, m, err = p.parameters(f, privateFile, maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	private, err := parsePrivate(doc)
	if err != nil {
		return c, fmt.Errorf("reading %s: %w", privateFile, err)
	}
	if private.instance != p.name {
		return c, malformed("%s are those of instance %q", privateFile, private.instance)
	}
	c.expire(privateFile, m)
	c.interval = private.interval
	return c, nil
}

// parameters returns a file and its metadata.
func (p *part) parameters(f *folder, name string, limit int64) ([]byte, metadata, error) {
	doc, err := f.file(limit, folderOf(p.name), name)
	if err != nil {
		return nil, metadata{}, err
	}
	text, err := f.file(maxSmall, folderOf(p.name), name+besides)
	if errors.Is(err, fs.ErrNotExist) {
		return doc, metadata{version: firstVersion}, nil
	}
	if err != nil {
		return nil, metadata{}, err
	}
	m, err := parseMetadata(text)
	if err != nil {
		return nil, m, fmt.Errorf("reading %s: %w", name+besides, err)
	}
	return doc, m, nil
}

func (p *part) parse(doc []byte, version int) (*instance, error) {
	parameters, err := parseShared(doc, version)
	if err != nil {
		return nil, err
	}
	if parameters.Instance != p.name {
		return nil, malformed("they are those of instance %q", parameters.Instance)
	}
	s, err := newInstance(parameters)
	if err != nil {
		return nil, malformed("%w", err)
	}
	return s, nil
}

func (c *content) expire(file string, m metadata) {
	if !m.expires.IsZero() {
		c.expiries = append(c.expiries, expiry{file, m.expires})
	}
}

// optional reads the optional parts. One that cannot be read is as one that is not there: what holds then is stricter.
func (p *part) optional(f *folder) error {
	var failures []error
	part := func(name string, parse func(doc []byte) error) {
		doc, err := f.file(maxSmall, folderOf(p.name), name)
		if err == nil {
			err = parse(doc)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, fmt.Errorf("%s of instance %s is not taken: %w", name, p.name, err))
		}
	}
	part(nextUpdateFile, func(doc []byte) error {
		verify, err := parseNextUpdate(doc)
		p.skipNextUpdate = err == nil && !verify
		return err
	})
	part(fetchIntervalFile, func(doc []byte) error {
		_, err := parseFetchInterval(doc)
		return err
	})
	part(monitoringFile, func(doc []byte) error {
		_, err := parseMonitoring(doc)
		return err
	})
	return errors.Join(failures...)
}
