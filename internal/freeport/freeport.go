// SPDX-License-Identifier: Apache-2.0

// Package freeport finds ports of the loopback interface to listen on. A configuration must name them before anybody
// listens, so they come from where the kernel takes none for connections that go out: nobody gets one by chance meanwhile.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
)

const (
	lowest   = 10000 // below are those of services
	outgoing = 32768 // from here on the kernel takes ports for connections that go out, unless it says otherwise
	attempts = 1000
)

// Find returns n different TCP ports that nobody listens on.
func Find(n int) ([]int, error) {
	end := firstOutgoing()
	var ports []int
	for range attempts {
		if len(ports) == n {
			return ports, nil
		}
		port := 0 // whichever the kernel takes, where it takes all
		if end > lowest {
			port = lowest + rand.IntN(end-lowest)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		defer l.Close() // not before all are chosen, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return nil, fmt.Errorf("found %d of %d free ports of the loopback interface", len(ports), n)
}

// firstOutgoing returns the lowest port that the kernel takes for connections that go out.
func firstOutgoing() int {
	file, err := os.Open("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return outgoing
	}
	defer file.Close()
	var first int
	if _, err := fmt.Fscan(file, &first); err != nil {
		return outgoing
	}
	return first
}
