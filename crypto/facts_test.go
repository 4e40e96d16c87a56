// SPDX-License-Identifier: Apache-2.0

package crypto

import (
	"fmt"
	"testing"
)

func TestFactsAreBounded(t *testing.T) {
	var f Facts
	proofs := 0
	prove := func() (any, error) { proofs++; return proofs, nil }
	for i := range 3*MaxFacts + 10 {
		f.Get(prove, fmt.Append(nil, i))
	}
	kept := 0
	f.kept.Range(func(any, any) bool { kept++; return true })
	if kept > MaxFacts || kept != f.Len() {
		t.Errorf("%d facts are kept, and counted as %d", kept, f.Len())
	}
	before := proofs
	if v, _ := f.Get(prove, []byte("a"), []byte("bc")); v != before+1 {
		t.Error("not proved")
	}
	if v, _ := f.Get(prove, []byte("a"), []byte("bc")); v != before+1 {
		t.Error("proved twice")
	}
	if v, _ := f.Get(prove, []byte("ab"), []byte("c")); v != before+2 {
		t.Error("other octets with the same sum borrow a fact")
	}
	fails := func() (any, error) { return nil, fmt.Errorf("false") }
	for range 2 {
		if _, err := f.Get(fails, []byte("false")); err == nil {
			t.Error("what is false became a fact")
		}
	}
}
