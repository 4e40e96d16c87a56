// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/caddy-fairway/fairway/crypto/batch"
	"github.com/caddy-fairway/fairway/wire"
)

// caught calls f, which runs on a goroutine that is not the request's, and makes an error of a panic: nobody else would catch
// it there, and all exchanges would end with it. The operator is told where it was.
func (s *SecurityServer) caught(here wire.Place, f func() error) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		err = wire.At(here, wire.Errorf("internal_error", "this security server failed unexpectedly; its log says where"))
		if s.Report == nil {
			return
		}
		stack := debug.Stack()
		if signing, ok := p.(*batch.Panic); ok {
			p, stack = signing.Value, signing.Stack
		}
		what := fmt.Sprintf("%T", p) // another value may hold content
		if bug, ok := p.(runtime.Error); ok {
			what = bug.Error()
		}
		s.Report(fmt.Errorf("panic in an exchange: %s\n%s", what, stack))
	}()
	return f()
}
