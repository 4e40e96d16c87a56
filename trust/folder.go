// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The files of a folder of global configuration (signature-and-evidence 13.3). All but the first are below the folder of
// an instance, and have metadata beside them.
const (
	ownFile           = "instance-identifier"
	sharedFile        = "shared-params.xml"
	privateFile       = "private-params.xml"
	nextUpdateFile    = "nextupdate-params.xml"
	fetchIntervalFile = "fetchinterval-params.xml"
	monitoringFile    = "monitoring-params.xml"
	besides           = ".metadata"
)

// folder reads a folder of global configuration, as often as it changes. It is used by one goroutine at a time.
type folder struct {
	dir    string
	past   bool         // read to judge the past: nothing expires, and what was good enough then is good enough
	client *http.Client // for OCSP responders

	own   string           // the own instance; empty: the folder has not been read
	parts map[string]*part // what was read of each instance
}

// read returns what the folder tells now, and what cannot be taken of it, with the reasons: that is left out, or as it
// was when it could be read last. Files that look as before are not read again, unless all are asked for. Where there is
// nothing to go on with, read returns nil.
func (f *folder) read(all bool) (*snapshot, []error) {
	own, err := f.readOwn()
	if err != nil {
		return nil, []error{err}
	}
	if f.own != "" && own != f.own {
		return nil, []error{malformed("%s names instance %q, and it was %s before; all stays as it was", ownFile, own, f.own)}
	}
	names, problems, err := f.instances()
	if err != nil {
		return nil, []error{err}
	}
	f.own = own
	parts := make(map[string]*part)
	for _, name := range names {
		p := f.parts[name]
		if p == nil {
			p = &part{name: name, own: name == own}
		}
		p.refresh(f, all)
		if p.err != nil {
			problems = append(problems, p.err)
		}
		if p.shared != nil || p.err != nil {
			parts[name] = p
		}
	}
	if last := f.parts[own]; parts[own] == nil && last != nil {
		parts[own] = last
		problems = append(problems, malformed("instance %s, the own one, is no longer there; it stays as it was", own))
	}
	f.parts = parts
	if parts[own] == nil || parts[own].shared == nil {
		return nil, append(problems, malformed("there are no shared parameters of instance %s, the own one", own))
	}
	return newSnapshot(f), problems
}

func malformed(format string, args ...any) error {
	return refuse("malformed_global_conf", format, args...)
}

// readOwn returns the own instance.
func (f *folder) readOwn() (string, error) {
	const longest = 4 << 10
	text, err := f.file(longest, ownFile)
	if err != nil {
		return "", err
	}
	own := strings.TrimSpace(string(text))
	if err := checkInstance(own); err != nil {
		return "", malformed("%s: %w", ownFile, err)
	}
	return own, nil
}

// instances returns the instances that have a folder, and what is wrong with folders that are named otherwise.
func (f *folder) instances() (names []string, problems []error, err error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if info, err := os.Stat(filepath.Join(f.dir, e.Name())); err != nil || !info.IsDir() {
			continue
		}
		name, err := instanceOf(e.Name())
		if err != nil {
			problems = append(problems, malformed("folder %q is left out: %w", e.Name(), err))
			continue
		}
		names = append(names, name)
	}
	return names, problems, nil
}

// instanceOf returns the instance whose folder has that name.
func instanceOf(folder string) (string, error) {
	instance, err := url.QueryUnescape(folder)
	if err != nil {
		return "", err
	}
	if err := checkInstance(instance); err != nil {
		return "", err
	}
	if folderOf(instance) != folder {
		return "", fmt.Errorf("the folder of instance %q would be %q", instance, folderOf(instance))
	}
	return instance, nil
}

// checkInstance refuses names of instances that are none, or that mean something to file systems
// (signature-and-evidence 14.3, attack 34).
func checkInstance(instance string) error {
	control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }
	switch {
	case instance == "":
		return errors.New("it names no instance")
	case instance == "." || instance == "..", strings.ContainsFunc(instance, control):
		return fmt.Errorf("%q is no name of an instance", instance)
	}
	return nil
}

// folderOf returns the name of the folder of an instance: form-URL-encoded, as Java does it.
func folderOf(instance string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-*_"
	var b strings.Builder
	for _, c := range []byte(instance) {
		switch {
		case strings.IndexByte(plain, c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteByte('+')
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// file returns what is in a file, which must be a regular one of at most that size.
func (f *folder) file(limit int64, name ...string) ([]byte, error) {
	path := f.path(name...)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, malformed("%s is no file", path)
	}
	if info.Size() > limit {
		return nil, malformed("%s is longer than %d octets", path, limit)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, malformed("%s is longer than %d octets", path, limit)
	}
	return data, nil
}

func (f *folder) path(name ...string) string {
	return filepath.Join(append([]string{f.dir}, name...)...)
}

// looks are how files look from outside, in order; nil: it cannot be seen.
type looks []fs.FileInfo

func (f *folder) look(instance string, names []string) looks {
	l := make(looks, 0, 2*len(names))
	for _, name := range names {
		for _, name := range []string{name, name + besides} {
			info, err := os.Stat(f.path(folderOf(instance), name))
			if err != nil {
				info = nil
			}
			l = append(l, info)
		}
	}
	return l
}

func (l looks) same(as looks) bool {
	return slices.EqualFunc(l, as, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
