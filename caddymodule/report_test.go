// SPDX-License-Identifier: Apache-2.0

package caddymodule

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-fairway/fairway/exchange"
)

// TestReportOfResponse: the log says of when the last OCSP response is, where there has been one.
func TestReportOfResponse(t *testing.T) {
	log := logFile(t)
	cert := writeKey(t, filepath.Join(t.TempDir(), "auth.pem"), "auth", forAuthentication, -1, 1)
	for _, of := range []time.Time{{}, noon.Add(-2 * time.Hour)} {
		Host{}.report(&exchange.StatusError{Certificate: cert, ThisUpdate: of, GoodUntil: of.Add(time.Hour), Limit: time.Hour, At: noon, Err: errors.New("connection refused")})
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "other security servers refuse our certificate") {
			lines = append(lines, line)
		}
	}
	if len(lines) != 2 || strings.Contains(lines[0], "response_of") || !strings.Contains(lines[1], `"response_of":`) {
		t.Errorf("the log says %q", lines)
	}
}

// logFile has Caddy log into a file until the test ends, and returns its name.
func logFile(t *testing.T) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "log")
	output, err := json.Marshal(map[string]string{"output": "file", "filename": log})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Run(&caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		Logging: &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{WriterRaw: output}}}},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { caddy.Stop() })
	return log
}
