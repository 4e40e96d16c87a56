// SPDX-License-Identifier: Apache-2.0

package trust

import (
	"encoding/json"
	"fmt"
	"time"
)

// metadata is what stands beside a file of a configuration (signature-and-evidence 13.3), as far as the file does not
// tell itself. A file without never expires, and is of the first version.
type metadata struct {
	expires time.Time // zero: never
	version int
}

// parseMetadata reads the JSON text that X-Road's configuration client writes. Cause: malformed_global_conf.
func parseMetadata(doc []byte) (metadata, error) {
	m, err := readMetadata(doc)
	if err != nil {
		return metadata{}, refuse("malformed_global_conf", "%w", err)
	}
	return m, nil
}

func readMetadata(doc []byte) (m metadata, err error) {
	var text struct {
		Expires string      `json:"expirationDate"`
		Version json.Number `json:"configurationVersion"` // a string of digits, or a number
	}
	if err := json.Unmarshal(doc, &text); err != nil {
		return m, err
	}
	m.version = firstVersion
	if text.Version != "" {
		n, err := text.Version.Int64()
		if err != nil || n < firstVersion || n > lastVersion {
			return m, fmt.Errorf("configurationVersion %q is none of %d to %d", text.Version, firstVersion, lastVersion)
		}
		m.version = int(n)
	}
	if text.Expires != "" {
		if m.expires, err = time.Parse(time.RFC3339, text.Expires); err != nil {
			const minutes = "2006-01-02T15:04Z07:00" // Java leaves out seconds that are zero
			m.expires, err = time.Parse(minutes, text.Expires)
		}
		if err != nil || m.expires.IsZero() {
			return m, fmt.Errorf("expirationDate %q is no time", text.Expires)
		}
	}
	return m, nil
}
