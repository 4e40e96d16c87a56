// SPDX-License-Identifier: Apache-2.0

package exchange

import "runtime"

// There are two lanes. A message is small until bulkFrom octets of it have passed, and never waits for others; after that
// it lets all who wait for a processor go first, after every turn. So large messages share the processors evenly, and a
// small one waits for one turn of those that run, not for the ten milliseconds after which the runtime would interrupt each.
// Nothing is held while somebody is waited for: a peer that is slow, or does not read, holds up nobody.
const (
	bulkFrom = 1 << 20
	turn     = 256 << 10
)

// lane is that of the octets of a message.
type lane struct{ next int64 }

// passes is told how many octets have passed.
func (l *lane) passes(octets int64) {
	if octets >= max(l.next, bulkFrom) {
		l.next = octets + turn
		runtime.Gosched()
	}
}
