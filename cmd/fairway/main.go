// SPDX-License-Identifier: Apache-2.0

// Command fairway is Caddy with its standard modules and X-Road security servers.
package main

import (
	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-fairway/fairway"
)

func main() {
	caddy.CustomBinaryName = "fairway"
	caddycmd.Main()
}
