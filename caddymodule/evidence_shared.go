// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"sync"

	"github.com/caddy-fairway/fairway/evidence"
)

// evidenceFolders are the evidence stores that this process has open, by folder. Only one may write to a folder, but
// after a reload that changed something else a server and its successor live side by side for a while: they share the
// store. This is no caddy.UsagePool, for there the folder could be opened again while it is still being closed.
var evidenceFolders = struct {
	sync.Mutex
	open map[string]*evidenceFolder
}{open: make(map[string]*evidenceFolder)}

type evidenceFolder struct {
	store  evidence.Store
	usages int
}

// sharedEvidence is one usage of an evidence store. Its Close gives the usage back.
type sharedEvidence struct {
	evidence.Store
	close func() error
}

// Close closes the store where nobody else uses it.
func (s *sharedEvidence) Close() error { return s.close() }

func openShared(dir string) (evidence.Store, error) {
	evidenceFolders.Lock()
	defer evidenceFolders.Unlock()
	f := evidenceFolders.open[dir]
	if f == nil {
		store, err := evidence.OpenDisk(dir)
		if err != nil {
			return nil, err
		}
		f = &evidenceFolder{store: store}
		evidenceFolders.open[dir] = f
	}
	f.usages++
	return &sharedEvidence{f.store, sync.OnceValue(func() error { return closeShared(dir) })}, nil
}

func closeShared(dir string) error {
	evidenceFolders.Lock()
	defer evidenceFolders.Unlock()
	f := evidenceFolders.open[dir]
	if f.usages--; f.usages > 0 {
		return nil
	}
	delete(evidenceFolders.open, dir)
	return f.store.Close()
}
