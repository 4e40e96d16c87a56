// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import "testing"

func TestGroupIn(t *testing.T) {
	const text = "9:name=systemd:/\n7:blkio:/user.slice\n4:cpu,memory:/a:b/c\n0::/\n"
	for controller, want := range map[string]string{"blkio": "/user.slice", "memory": "/a:b/c", "cpu": "/a:b/c"} {
		if got, err := groupIn(text, controller); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", controller, got, err, want)
		}
	}
	if got, err := groupIn("0::/init.scope\n", "memory"); err == nil {
		t.Errorf("version 2 alone: got %q", got)
	}
}
