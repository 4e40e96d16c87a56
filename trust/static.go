// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"fmt"
	"io"
	"os"
)

// OpenStatic returns a Store of the shared parameters (version 6) of the own instance in one unsigned XML file. The file
// is read once: to take over a change, open it again. An address may have a port of its own (host:port).
// Cause: malformed_global_conf.
func OpenStatic(file string) (Store, error) {
	s, err := openStatic(file)
	if err != nil {
		return nil, fmt.Errorf("opening shared parameters %q: %w", file, err)
	}
	return s, nil
}

func openStatic(file string) (Store, error) {
	p, err := readStatic(file)
	if err != nil {
		return nil, err
	}
	s, err := New(p, nil)
	if err != nil {
		return nil, refuse("malformed_global_conf", "%w", err)
	}
	return s, nil
}

// readStatic reads shared parameters.
func readStatic(file string) (Parameters, error) {
	f, err := os.Open(file)
	if err != nil {
		return Parameters{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return Parameters{}, err
	} else if info.Size() > maxShared {
		return Parameters{}, malformed("it is longer than %d octets", maxShared)
	}
	doc, err := io.ReadAll(io.LimitReader(f, maxShared+1)) // one more than is accepted, so that it is refused
	if err != nil {
		return Parameters{}, err
	}
	return ParseShared(doc)
}
