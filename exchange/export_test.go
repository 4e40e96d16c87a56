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
