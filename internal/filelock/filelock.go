// SPDX-License-Identifier: Apache-2.0

// Package filelock has one holder of an open file at a time, until the file is closed or its process ends, however it ends.
package filelock
