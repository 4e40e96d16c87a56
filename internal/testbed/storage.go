// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"io/fs"
	"sync"

	"github.com/caddy-fairway/fairway/trust/dev"
)

// storage is a dev.Storage in memory.
type storage struct {
	work sync.Mutex // one lock for all names
	mu   sync.Mutex
	kept map[string][]byte
}

// NewStorage returns an empty dev.Storage in memory.
func NewStorage() dev.Storage { return &storage{kept: make(map[string][]byte)} }

func (s *storage) Lock(context.Context, string) error   { s.work.Lock(); return nil }
func (s *storage) Unlock(context.Context, string) error { s.work.Unlock(); return nil }

func (s *storage) Store(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[key] = append([]byte(nil), value...)
	return nil
}

func (s *storage) Load(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.kept[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return value, nil
}

func (s *storage) Exists(_ context.Context, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.kept[key]
	return ok
}
