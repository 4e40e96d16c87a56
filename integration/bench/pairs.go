// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os/exec"
	"time"
)

// startCaddyPair starts two plain reverse proxies with mutual TLS between them. They neither sign nor keep anything, and
// hold nothing back. The binary is Fairway's own, which is Caddy with more modules.
func startCaddyPair(_ context.Context, b *bench, number int) (*contestant, error) {
	run := func(dir, sites string) ([]string, error) {
		file, err := written(dir, "Caddyfile", fmt.Sprintf(`{
	admin 127.0.0.1:%[3]d
	persist_config off
	auto_https disable_redirects
	storage file_system %[1]s/storage
	servers {
		protocols h1
		strict_sni_host insecure_off
	}
}
%[2]s`, dir, sites, 2000+number))
		return []string{b.binary, "run", "--config", file, "--adapter", "caddyfile"}, err
	}
	c, err := b.startPair(fmt.Sprintf("caddy-%d", number), func(dir string) ([]string, error) {
		return run(dir, fmt.Sprintf(`http://:%d {
	bind 127.0.0.1
	reverse_proxy https://%s:%d {
		flush_interval -1
		transport http {
			tls_client_auth %[4]s %[4]s
			tls_trust_pool file %[4]s
			versions 1.1
			keepalive_idle_conns_per_host %[5]d
		}
	}
}
`, 8000+number, farAddress, 7000+number, b.certificate, idle))
	}, func(dir string) ([]string, error) {
		return run(dir, fmt.Sprintf(`https://:%d {
	tls %[2]s %[2]s {
		client_auth {
			mode require_and_verify
			trust_pool file %[2]s
		}
		alpn http/1.1
	}
	reverse_proxy 127.0.0.1:%[3]s {
		flush_interval -1
		transport http {
			keepalive_idle_conns_per_host %[4]d
		}
	}
}
`, 7000+number, b.certificate, servicePort, idle))
	})
	if err != nil {
		return nil, err
	}
	c.url, c.admin = fmt.Sprintf("http://127.0.0.1:%d/", 8000+number), 2000+number
	return c, nil
}

// idle is how many connections the pairs keep: one for each client, so that nobody pays for handshakes in between.
const idle = 4096

// errNoNginx leaves nginx out of a quick run, and ends any other.
var errNoNginx = errors.New("nginx is not installed (apt-get install nginx-light)")

// startNginxPair does the same with nginx, which must be installed. One process each: one transfer uses one worker anyway.
func startNginxPair(_ context.Context, b *bench, number int) (*contestant, error) {
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		return nil, errNoNginx
	}
	run := func(dir, server string) ([]string, error) {
		file, err := written(dir, "nginx.conf", fmt.Sprintf(`daemon off;
master_process off;
pid %[1]s/pid;
error_log stderr;
events {
	worker_connections 4096;
}
http {
	access_log off;
	keepalive_requests 100000000;
	client_max_body_size 0;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	proxy_http_version 1.1;
	proxy_request_buffering off;
	proxy_buffering off;
	proxy_set_header Connection "";
	proxy_read_timeout 1h;
	proxy_send_timeout 1h;
%s}
`, dir, server))
		return []string{nginx, "-c", file, "-p", dir}, err
	}
	c, err := b.startPair(fmt.Sprintf("nginx-%d", number), func(dir string) ([]string, error) {
		return run(dir, fmt.Sprintf(`	upstream receiver {
		server %s:%d;
		keepalive 256;
		keepalive_requests 100000000;
	}
	server {
		listen 127.0.0.1:%d;
		location / {
			proxy_pass https://receiver;
			proxy_ssl_protocols TLSv1.2 TLSv1.3;
			proxy_ssl_certificate %[4]s;
			proxy_ssl_certificate_key %[4]s;
			proxy_ssl_trusted_certificate %[4]s;
			proxy_ssl_verify on;
			proxy_ssl_name %[1]s;
		}
	}
`, farAddress, 7000+number, 8000+number, b.certificate))
	}, func(dir string) ([]string, error) {
		return run(dir, fmt.Sprintf(`	upstream service {
		server 127.0.0.1:%s;
		keepalive 256;
		keepalive_requests 100000000;
	}
	server {
		listen %d ssl;
		ssl_protocols TLSv1.2 TLSv1.3;
		ssl_certificate %[3]s;
		ssl_certificate_key %[3]s;
		ssl_client_certificate %[3]s;
		ssl_verify_client on;
		location / {
			proxy_pass http://service;
		}
	}
`, servicePort, 7000+number, b.certificate))
	})
	if err != nil {
		return nil, err
	}
	c.url = fmt.Sprintf("http://127.0.0.1:%d/", 8000+number)
	return c, nil
}

// writeCertificate writes a self-signed certificate with its key, for the far address and for clients. RSA, for the
// cipher suites of X-Road are for RSA.
func writeCertificate(file string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(farAddress)}, DNSNames: []string{farAddress}, BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return writePEM(file, der, key)
}
