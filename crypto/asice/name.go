// SPDX-License-Identifier: Apache-2.0

package asice

import (
	"fmt"
	"strconv"
	"strings"
)

// maxID is how many characters of a message's id are in the name of its container.
const maxID = 226

// FileName returns the name of a message's container (section 10.1): its id, whether it is a response, and the number of
// the record. It is one name for a file wherever files have names, whatever the id is.
func FileName(id string, response bool, record uint64) string {
	kind := "request"
	if response {
		kind = "response"
	}
	return encodeID(id) + "-" + kind + "-" + strconv.FormatUint(record, 32) + ".asice"
}

// encodeID encodes as forms are, and cuts.
func encodeID(id string) string {
	var b strings.Builder
	for i := 0; i < len(id) && b.Len() < maxID; i++ {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte(".-*_", c) >= 0:
			b.WriteByte(c)
		case c == ' ':
			b.WriteByte('+')
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()[:min(b.Len(), maxID)]
}
