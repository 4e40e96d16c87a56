// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"os"
	"strings"
)

func try(ctx context.Context, b *bench) ([]*table, error) {
	if err := b.shape(ctx, 0); err != nil {
		return nil, err
	}
	es := []entrant{direct}
	for _, n := range strings.Fields(os.Getenv("TRY")) {
		es = append(es, map[string]entrant{"caddy": caddyPair, "strict": fairwayStrict, "512": fairwaySHA512, "gated": fairwayGated, "nginx": nginxPair}[n])
	}
	all, err := b.enter(ctx, es...)
	if err != nil {
		return nil, err
	}
	defer leave(all)
	t, err := b.compare(ctx, race{title: "try", message: msg(b), runs: b.repetitions(3)}, all)
	return []*table{t}, err
}

func msg(b *bench) message {
	if os.Getenv("DOWN") != "" {
		return message{Return: b.sized(1 << 30)}
	}
	return message{Size: b.sized(1 << 30)}
}
