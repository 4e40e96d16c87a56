// SPDX-License-Identifier: Apache-2.0

package exchange

import (
	"testing"
	"time"
)

// SetStillHere changes the time between interim answers for a test.
func SetStillHere(t *testing.T, d time.Duration) {
	before := stillHere
	stillHere = d
	t.Cleanup(func() { stillHere = before })
}

// Lingering is how many refused requests are read to their end, so that their senders come to read why.
func Lingering(s *SecurityServer) Load { return s.admissions.lingering.load() }
