// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"

	"github.com/caddy-fairway/fairway/internal/freeport"
)

// client is who asks, in every case.
const client = "DEV/GOV/1111/app"

// serviceID is the echo service of a stack, or of the reference.
func serviceID(name string) string { return "DEV/GOV/0000/" + name + "/echo/v1" }

// A backend is a service behind the receiving server.
type backend struct {
	Name string
	Port int
}

func (b backend) ID() string  { return serviceID(b.Name) }
func (b backend) URL() string { return fmt.Sprintf("http://127.0.0.1:%d/echo", b.Port) }

// Two security servers in one process: ss1 sends for the clients, ss2 receives for the services.
var caddyfile = template.Must(template.New("Caddyfile").Parse(`{
	admin off
	default_bind 127.0.0.1
	grace_period 1s
	auto_https disable_redirects
	xroad ss1 {
		server DEV/GOV/1111/ss1
		ports {
			peer {{.Peer}}
			ocsp {{.OCSP}}
		}
		signer dev
		trust dev
		client {{.Client}}
	}
	xroad ss2 {
		server DEV/GOV/0000/ss2
		signer dev
		trust dev
{{- range .Backends}}
		service {{.ID}} {
			allow {{$.Client}}
			to {{.URL}}
		}
{{- end}}
	}
	servers 127.0.0.1:{{.Peer}} {
		protocols h1
		strict_sni_host insecure_off
	}
}
http://:{{.Send}} {
	log
	xroad_send ss1
}
https://:{{.Peer}} {
	log
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
http://:{{.OCSP}} {
	xroad_ocsp ss2
}
`))

// startFairway builds the binary and runs it before the backends; url is the sending server's.
func startFairway(repository, folder string, backends []backend) (url string, stop func(), err error) {
	binary := filepath.Join(folder, "fairway")
	build := exec.Command("go", "build", "-o", binary, "./cmd/fairway")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("building fairway: %w\n%s", err, out)
	}
	ports, err := freeport.Find(3)
	if err != nil {
		return "", nil, err
	}
	var text bytes.Buffer
	if err := caddyfile.Execute(&text, map[string]any{
		"Client": client, "Backends": backends, "Send": ports[0], "Peer": ports[1], "OCSP": ports[2],
	}); err != nil {
		return "", nil, err
	}
	config := filepath.Join(folder, "Caddyfile")
	if err := os.WriteFile(config, text.Bytes(), 0o644); err != nil {
		return "", nil, err
	}
	// Keys, spool and evidence stay in the folder.
	env := []string{"XDG_DATA_HOME=" + filepath.Join(folder, "data"), "XDG_CONFIG_HOME=" + filepath.Join(folder, "config")}
	stop, err = start(folder, filepath.Join(folder, "fairway.log"), ports[0], env,
		binary, "run", "--config", config, "--adapter", "caddyfile")
	return fmt.Sprintf("http://127.0.0.1:%d/", ports[0]), stop, err
}
