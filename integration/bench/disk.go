// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// disk is a slow one: a file system on a loop device of which the block layer lets so much through, in either direction.
// Control groups of version 1 do that, with a limit in the group of our processes and one in the root group, for data
// that is written later are written by the kernel. The file below is read and written past the page cache, so that
// nothing is kept twice.
type disk struct {
	name  string // as tables say it
	dir   string // where it is mounted
	bound int64  // octets that a process on it may hold, with the page cache; 0: no limit
}

const (
	blkio        = "/sys/fs/cgroup/blkio"
	memoryGroups = "/sys/fs/cgroup/memory"
	diskSize     = "3G"
)

// openDisk makes a disk that carries so many MB/s, measures it, and refuses one that does not.
func (b *bench) openDisk(ctx context.Context, rate float64) (string, error) {
	if _, err := os.Stat(blkio + "/blkio.throttle.write_bps_device"); err != nil {
		return "", errors.New("slow disks need the block throttle of control groups of version 1 (boot with systemd.unified_cgroup_hierarchy=0)")
	}
	image := filepath.Join(b.lab.dir, fmt.Sprintf("disk-%g", rate))
	dir := image + ".mount"
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	if err := command(ctx, "fallocate", "-l", diskSize, image); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, "losetup", "--find", "--show", "--direct-io=on", image).Output()
	if err != nil {
		return "", fmt.Errorf("a loop device for %s: %w", image, err)
	}
	loop := strings.TrimSpace(string(out))
	// All of the file system is made now, and not in the background while others are measured.
	if err := command(ctx, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop); err != nil {
		return "", err
	}
	if err := command(ctx, "mount", loop, dir); err != nil {
		return "", err
	}
	if err := throttle(loop, int64(rate*1e6)); err != nil {
		return "", err
	}
	return dir, b.measureDisk(ctx, dir, rate)
}

// measureDisk writes and reads for some seconds, past the page cache.
func (b *bench) measureDisk(ctx context.Context, dir string, rate float64) error {
	const block = 1 << 20
	blocks := int(rate * 1e6 * 4 / block) // four seconds
	file := filepath.Join(dir, "measured")
	defer os.Remove(file)
	for _, way := range [][]string{
		{"if=/dev/zero", "of=" + file, "oflag=direct"},
		{"if=" + file, "of=/dev/null", "iflag=direct"},
	} {
		begun := time.Now()
		if err := command(ctx, "dd", append(way, "bs="+strconv.Itoa(block), "count="+strconv.Itoa(blocks))...); err != nil {
			return err
		}
		got := float64(blocks) * block / 1e6 / time.Since(begun).Seconds()
		fmt.Fprintf(os.Stderr, "disk: %.1f MB/s of %g (%s)\n", got, rate, way[2])
		if math.Abs(got/rate-1) > lineTolerance && !b.quick {
			return fmt.Errorf("the disk carries %.1f MB/s instead of %g", got, rate)
		}
	}
	return nil
}

// throttle limits a block device; 0 is no limit.
func throttle(device string, octets int64) error {
	number, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/dev")
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s %d\n", strings.TrimSpace(string(number)), octets)
	groups := []string{blkio}
	if own, err := ownGroup("blkio"); err != nil {
		return err
	} else if own != "/" {
		groups = append(groups, blkio+own)
	}
	for _, group := range groups {
		for _, way := range []string{"read", "write"} {
			if err := os.WriteFile(group+"/blkio.throttle."+way+"_bps_device", []byte(line), 0); err != nil {
				return fmt.Errorf("throttling %s: %w", device, err)
			}
		}
	}
	return nil
}

// ownGroup returns the path of this process's control group, of version 1.
func ownGroup(controller string) (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return groupIn(string(text), controller)
}

// groupIn finds a controller's path in what /proc/self/cgroup says (cgroups(7)).
func groupIn(text, controller string) (string, error) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 {
			for name := range strings.SplitSeq(fields[1], ",") {
				if name == controller {
					return fields[2], nil
				}
			}
		}
	}
	return "", fmt.Errorf("no control group of version 1 for %s", controller)
}

// memoryGroup is where a run bounds the memory of processes: below its own group, whose limits go on to hold.
func memoryGroup(run string) (string, error) {
	own, err := ownGroup("memory")
	return filepath.Join(memoryGroups, own, run), err
}

// hold bounds what a process and the page cache that it fills may take together.
func (d *disk) hold(run string, p *process) error {
	if d.bound == 0 {
		return nil
	}
	group, err := memoryGroup(run)
	if err != nil {
		return err
	}
	group = filepath.Join(group, p.name)
	if err := os.MkdirAll(group, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(group+"/memory.limit_in_bytes", []byte(strconv.FormatInt(d.bound, 10)), 0); err != nil {
		return err
	}
	return os.WriteFile(group+"/cgroup.procs", []byte(strconv.Itoa(p.pid())), 0)
}

// removeDisks takes away what a run has made of disks and groups.
func removeDisks(ctx context.Context, run string) (err error) {
	dir := filepath.Join(scratch, run)
	mounts, _ := filepath.Glob(filepath.Join(dir, "*.mount")) // the pattern is well formed
	for _, mount := range mounts {
		image := strings.TrimSuffix(mount, ".mount")
		out, listing := exec.CommandContext(ctx, "losetup", "--noheadings", "--output", "NAME", "--associated", image).Output()
		err = errors.Join(err, listing)
		for _, loop := range strings.Fields(string(out)) {
			err = errors.Join(err, throttle(loop, 0))
			if mounted(mount) {
				err = errors.Join(err, command(ctx, "umount", mount))
			}
			err = errors.Join(err, command(ctx, "losetup", "--detach", loop))
		}
	}
	if group, none := memoryGroup(run); none == nil {
		inner, _ := filepath.Glob(group + "/*/cgroup.procs")
		for _, file := range inner {
			err = errors.Join(err, os.Remove(filepath.Dir(file)))
		}
		if _, missing := os.Stat(group); missing == nil {
			err = errors.Join(err, os.Remove(group))
		}
	}
	return err
}

func mounted(dir string) bool {
	text, err := os.ReadFile("/proc/self/mounts")
	return err == nil && strings.Contains(string(text), " "+dir+" ")
}
