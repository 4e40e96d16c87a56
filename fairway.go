// SPDX-License-Identifier: Apache-2.0

// Package fairway is X-Road-compatible security servers as Caddy modules.
//
// X-Road lets information systems of different organisations call each other's SOAP services over the internet. Each
// organisation has a security server that speaks for it: it signs what its members send, verifies what they receive,
// keeps the evidence, and lets nobody call a service who has not been allowed to. Fairway is such a security server,
// built so that attachments of any size stream through it.
//
// This package is the front door. Importing it registers everything with Caddy, so that one line of xcaddy builds a
// web server that is also a security server:
//
//	xcaddy build --with github.com/caddy-fairway/fairway
//
// The house behind the door, from the street to the cellar:
//
//   - cmd/fairway is the binary: Caddy, its standard modules, and this package.
//   - caddymodule is the Caddy face: the xroad app and option, xroad_send, xroad_receive, xroad_ocsp, xroad_echo.
//   - console is the command line, "fairway xroad …". Begin with "fairway xroad demo".
//   - exchange is one message exchange: the sender is an http.RoundTripper, the receiver is middleware.
//   - wire is the message between security servers, peer the connections to them.
//   - soap finds the X-Road header, trust knows who is who, evidence keeps what was signed.
//   - ident, multipart, spool and crypto know nothing of X-Road's messages and can be used on their own.
//
// The packages below caddymodule do not import Caddy and can be used in another server. docs/architecture.md tells why
// each thing stands where it stands, and a test holds it there.
package fairway

import (
	_ "embed"

	_ "github.com/caddy-fairway/fairway/caddymodule" // registers the modules
	"github.com/caddy-fairway/fairway/console"
)

// example is what "fairway xroad demo" runs and "fairway xroad init" writes.
//
//go:embed Caddyfile.example
var example string

func init() { console.Register(example) }
