// SPDX-License-Identifier: Apache-2.0

// Package caddymodule is the Caddy face of Fairway: it turns configuration into security servers
// and HTTP requests into calls on them.
//
// The app "xroad" holds the configuration of the security servers of a process, by name. Handlers, the matcher, the
// verifier and the certificate manager find theirs there by that name. What is open (keys, trust, spool, evidence,
// connections) lives in one exchange.SecurityServer per distinct configuration and is counted: the running app holds
// one usage and every exchange holds one for its whole life, so that a reload never takes anything away from an
// exchange that is under way.
package caddymodule
