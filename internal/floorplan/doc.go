// SPDX-License-Identifier: Apache-2.0

// Package floorplan holds the import rules of this repository as a test.
//
// The rules are the tables of docs/architecture.md: what a reader sees there is what is enforced. Beside them stand two
// rules of the house, a package comment in every package and an SPDX line in every Go file, and the promise that
// docs/dependencies.md names exactly the modules that go.mod requires directly.
package floorplan
