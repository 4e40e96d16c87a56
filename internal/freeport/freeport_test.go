// SPDX-License-Identifier: Apache-2.0

package freeport

import (
	"fmt"
	"net"
	"slices"
	"testing"
)

func TestFind(t *testing.T) {
	ports, err := Find(20)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 20 {
		t.Errorf("%d ports", len(ports))
	}
	if slices.Sort(ports); len(slices.Compact(slices.Clone(ports))) != len(ports) {
		t.Errorf("not all differ: %v", ports)
	}
	for _, port := range ports {
		if first := firstOutgoing(); first > lowest && port >= first {
			t.Errorf("port %d may be taken by a connection that goes out", port)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
}

func TestFindTooMany(t *testing.T) {
	if ports, err := Find(attempts + 1); err == nil {
		t.Errorf("%d ports", len(ports))
	}
}
