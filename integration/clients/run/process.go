// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	startLimit  = time.Minute     // for a service to listen
	clientLimit = 2 * time.Minute // for a client to run its cases
)

// start runs a program until stop is called; it returns when the port is
// listened on. What the program prints goes to log.
func start(dir, log string, port int, env []string, args ...string) (stop func(), err error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), env...), out, out
	if err := cmd.Start(); err != nil {
		out.Close()
		return nil, fmt.Errorf("starting %s: %w", args[0], err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		out.Close()
	}()
	stop = func() {
		cmd.Process.Kill()
		<-ended
	}
	deadline := time.After(startLimit)
	for {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
			return stop, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("%s ended before it listened (%v):\n%s", args[0], err, tail(log))
		case <-deadline:
			stop()
			return nil, fmt.Errorf("%s does not listen on port %d:\n%s", args[0], port, tail(log))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// An outcome is the line that a client prints for each case.
type outcome struct {
	Case  string `json:"case"`
	OK    bool   `json:"ok"`
	Error string `json:"error"`
}

// run asks a client for cases and returns what it printed of each.
func run(dir, log string, s stack, url, client, service string, sizes, names []string) (map[string]outcome, error) {
	ctx, cancel := context.WithTimeout(context.Background(), clientLimit)
	defer cancel()
	args := append(append([]string{}, s.client[1:]...), url, client, service, strings.Join(sizes, ","))
	cmd := exec.CommandContext(ctx, s.client[0], append(args, names...)...)
	cmd.Dir = dir
	if s.option != nil {
		cmd.Env = append(os.Environ(), "OPTION="+s.option.name)
	}
	errors, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer errors.Close()
	cmd.Stderr = errors
	printed, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("running %s: %w\n%s", s.client[0], err, tail(log))
	}
	out := map[string]outcome{}
	for lines := bufio.NewScanner(bytes.NewReader(printed)); lines.Scan(); {
		var o outcome
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, fmt.Errorf("%s printed %q: %w", filepath.Base(s.client[0]), lines.Text(), err)
		}
		out[o.Case] = o
	}
	return out, nil
}

func tail(log string) string {
	text, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
