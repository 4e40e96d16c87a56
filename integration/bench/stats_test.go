// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		want   float64
	}{
		"one":       {[]float64{4}, 4},
		"odd":       {[]float64{9, 1, 5}, 5},
		"even":      {[]float64{4, 1, 3, 2}, 2.5},
		"unordered": {[]float64{5, 4, 3, 2, 1}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			before := append([]float64(nil), c.values...)
			if got := median(c.values); got != c.want {
				t.Errorf("got %g, want %g", got, c.want)
			}
			for i := range before {
				if before[i] != c.values[i] {
					t.Fatal("the values were reordered")
				}
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[99-i] = float64(i + 1)
	}
	for _, c := range []struct {
		percent, want float64
	}{{99, 99}, {100, 100}, {50, 50}, {0, 1}, {99.5, 100}} {
		if got := percentile(hundred, c.percent); got != c.want {
			t.Errorf("%g %%: got %g, want %g", c.percent, got, c.want)
		}
	}
	if got := percentile([]float64{7}, 99); got != 7 {
		t.Errorf("of one value: got %g, want 7", got)
	}
}

func TestFit(t *testing.T) {
	x := []float64{0.001, 0.1, 1, 4, 30}
	y := make([]float64, len(x))
	for i := range x {
		y[i] = 3*x[i] + 0.5
	}
	slope, r2 := fit(x, y)
	if math.Abs(slope-3) > 1e-9 || math.Abs(r2-1) > 1e-9 {
		t.Errorf("a straight line: slope %g, R² %g; want 3, 1", slope, r2)
	}
	y[4] *= 2
	if slope, r2 := fit(x, y); slope < 5 || r2 > 0.9999 {
		t.Errorf("a bent line: slope %g, R² %g", slope, r2)
	}
}
