// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// contestant is one way from the program that sends to the service.
type contestant struct {
	name string
	url  string
	cmd  *exec.Cmd // nil: no process of its own
	peak *peak
}

// start runs the binary with a Caddyfile and waits until url answers.
func (b *bench) start(ctx context.Context, name, url, caddyfile string) (*contestant, error) {
	dir := filepath.Join(b.dir, "of "+name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.binary, "run", "--config", config, "--adapter", "caddyfile")
	cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+dir, "XDG_CONFIG_HOME="+dir)
	var log bytes.Buffer
	cmd.Stderr = &log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &contestant{name: name, url: url, cmd: cmd, peak: watchPeak(cmd.Process.Pid)}
	for range 200 {
		if response, err := http.Get(url); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return c, nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.stop()
	return nil, fmt.Errorf("%s does not start:\n%s", name, &log)
}

func (c *contestant) stop() {
	if c.cmd != nil {
		c.peak.stop()
		c.cmd.Process.Signal(syscall.SIGTERM)
		c.cmd.Wait()
	}
}

// cpu returns the seconds of processor time that the contestant's process has used.
func (c *contestant) cpu() float64 {
	if c.cmd == nil {
		return 0
	}
	return cpuOf(c.cmd.Process.Pid)
}

func startFairway(ctx context.Context, b *bench) (*contestant, error) {
	send, peers, ocsp := freePort(), freePort(), freePort()
	return b.start(ctx, "fairway", fmt.Sprintf("http://127.0.0.1:%d/", send), fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	auto_https disable_redirects
	xroad ss1 {
		server DEV/GOV/1111/ss1
		ports {
			peer %[2]d
			ocsp %[3]d
		}
		signer dev
		trust dev
		client DEV/GOV/1111/app
	}
	xroad ss2 {
		server DEV/GOV/0000/ss2
		signer dev
		trust dev
		service DEV/GOV/0000/registry/echo/v1 {
			allow DEV/GOV/1111/app
			to %[4]s
		}
	}
	servers 127.0.0.1:%[2]d {
		protocols h1
		strict_sni_host insecure_off
	}
}
http://:%[1]d {
	xroad_send ss1
}
https://:%[2]d {
	tls {
		get_certificate xroad ss2
		client_auth {
			mode require
			verifier xroad ss2
		}
		alpn http/1.1
	}
	xroad_receive ss2
}
http://:%[3]d {
	xroad_ocsp ss2
}
`, send, peers, ocsp, b.service.url))
}

// startCaddyPair starts two plain reverse proxies with mutual TLS between them, in one process like Fairway's two servers.
// They neither sign nor keep anything, and hold nothing back.
func startCaddyPair(ctx context.Context, b *bench) (*contestant, error) {
	send, peers := freePort(), freePort()
	key := filepath.Join(b.dir, "pair.pem")
	if err := writeCertificate(key); err != nil {
		return nil, err
	}
	return b.start(ctx, "stock Caddy pair", fmt.Sprintf("http://127.0.0.1:%d/", send), fmt.Sprintf(`{
	admin off
	default_bind 127.0.0.1
	auto_https disable_redirects
	servers {
		protocols h1
		strict_sni_host insecure_off
	}
}
http://:%[1]d {
	reverse_proxy https://127.0.0.1:%[2]d {
		transport http {
			tls_client_auth %[3]s %[3]s
			tls_trust_pool file %[3]s
			versions 1.1
		}
	}
}
https://:%[2]d {
	tls %[3]s %[3]s {
		client_auth {
			mode require_and_verify
			trust_pool file %[3]s
		}
		alpn http/1.1
	}
	reverse_proxy %[4]s
}
`, send, peers, key, strings.TrimSuffix(b.service.url, "/")))
}

// writeCertificate writes a self-signed certificate with its key for 127.0.0.1.
func writeCertificate(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	return os.WriteFile(file, text, 0o600)
}

func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// cpuOf reads the processor time of a process, in seconds (proc(5): utime and stime, in hundredths).
func cpuOf(pid int) float64 {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// peak samples the anonymous memory of a process.
type peak struct {
	done chan struct{}
	mu   sync.Mutex
	max  int64
}

func watchPeak(pid int) *peak {
	p := &peak{done: make(chan struct{})}
	go func() {
		for {
			select {
			case <-p.done:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if now := anonymous(pid); now > 0 {
				p.mu.Lock()
				p.max = max(p.max, now)
				p.mu.Unlock()
			}
		}
	}()
	return p
}

func (p *peak) stop() { close(p.done) }

func (p *peak) octets() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.max
}

// anonymous reads RssAnon of a process in octets.
func anonymous(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	kib, _ := strconv.ParseInt(strings.TrimSpace(strings.SplitN(after, "kB", 2)[0]), 10, 64)
	return kib << 10
}
