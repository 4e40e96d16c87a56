// SPDX-License-Identifier: Apache-2.0

// Package integration is tests of the whole: Caddyfiles and what they become, messages through two security servers in
// one Caddy, and reloads while they are under way. Its folder clients has SOAP stacks of others.
package integration
