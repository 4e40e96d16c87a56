// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// playRole is what a process of this binary does that a run has started: `role NAME JSON`.
func playRole(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("a role has a name and its particulars, not %q", args)
	}
	switch args[0] {
	case "consumer":
		return play(ctx, args[1], consume)
	case "service":
		return play(ctx, args[1], serve)
	case "ocsp":
		return play(ctx, args[1], respond)
	case "load":
		return play(ctx, args[1], sendLoad)
	case "contained":
		return play(ctx, args[1], sendContained)
	case "crowd":
		return play(ctx, args[1], sendCrowd)
	case "hold":
		return play(ctx, args[1], hold)
	case "fetch":
		return play(ctx, args[1], fetch)
	case "archive":
		return play(ctx, args[1], measureArchive)
	case "meter":
		return play(ctx, args[1], meter)
	case "model-sender":
		return play(ctx, args[1], modelSender)
	case "model-receiver":
		return play(ctx, args[1], modelReceiver)
	}
	return fmt.Errorf("no role %q", args[0])
}

func play[T any](ctx context.Context, text string, role func(context.Context, T) error) error {
	var particulars T
	if err := json.Unmarshal([]byte(text), &particulars); err != nil {
		return err
	}
	return role(ctx, particulars)
}

// process is a role that runs until it is stopped.
type process struct {
	name   string
	cmd    *exec.Cmd
	log    string // file with what it says
	exited chan struct{}
}

// start runs a program in a namespace.
func (l *lab) start(ns, name string, argv ...string) (*process, error) {
	p := &process{name: name, cmd: l.command(ns, argv...), log: filepath.Join(l.dir, name+".log"), exited: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		p.cmd.Wait() // how it ended is not the point: whoever needs it finds that it is gone
		close(p.exited)
	}()
	return p, nil
}

// startRole runs a role of this binary in a namespace.
func (l *lab) startRole(ns, name, role string, particulars any) (*process, error) {
	argv, err := roleCommand(role, particulars)
	if err != nil {
		return nil, err
	}
	return l.start(ns, name, argv...)
}

func roleCommand(role string, particulars any) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(particulars)
	return []string{self, "role", role, string(text)}, err
}

// command prepares a program in a namespace. It does not outlive this process.
func (l *lab) command(ns string, argv ...string) *exec.Cmd {
	cmd := exec.Command("ip", append([]string{"netns", "exec", ns}, argv...)...)
	home := filepath.Join(l.dir, "home")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)
	// A group of its own: Ctrl-C comes to us alone, and we stop it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// stop asks a process to end, and makes it end after ten seconds.
func (p *process) stop() { p.stopWithin(10 * time.Second) }

func (p *process) stopWithin(patience time.Duration) {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

func (p *process) pid() int     { return p.cmd.Process.Pid }
func (p *process) cpu() float64 { return cpuOf(p.pid()) }

// said returns the end of what a process has said.
func (p *process) said() string {
	text, _ := os.ReadFile(p.log)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}

// ask lets a consumer do its job in the near namespace, and returns its answer and the processor time that it took.
func (l *lab) ask(ctx context.Context, j job) (o outcome, cpu float64, err error) {
	return perform[outcome](ctx, l, l.near, "consumer", j)
}

// perform lets a role do its job in a namespace, and returns what it found and the processor time that it took.
func perform[T any](ctx context.Context, l *lab, ns, role string, particulars any) (found T, cpu float64, err error) {
	argv, err := roleCommand(role, particulars)
	if err != nil {
		return found, 0, err
	}
	cmd := l.command(ns, argv...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		return found, 0, err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return found, 0, ctx.Err()
		}
		return found, 0, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		return found, 0, err
	}
	return found, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}
