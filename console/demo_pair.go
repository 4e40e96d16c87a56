// SPDX-License-Identifier: Apache-2.0

package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/certmagic"

	"github.com/caddy-fairway/fairway/internal/freeport"
)

// pair is the two security servers of the example, running in this process.
type pair struct {
	dir       string // everything that is written
	consumers string // address for information systems
	peers     string // address for other security servers
	records   int    // of evidence that were looked at
}

// pairServers are their names in the example.
var pairServers = []string{"ss1", "ss2"}

// openPair starts the example on free ports. One temporary folder becomes the data folder of this process, so that
// nothing is written elsewhere.
func openPair(example string) (p *pair, err error) {
	dir, err := os.MkdirTemp("", "fairway-demo-")
	if err != nil {
		return nil, err
	}
	p = &pair{dir: dir}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	if err := os.Setenv("XDG_DATA_HOME", dir); err != nil {
		return nil, err
	}
	text, ports, err := move(example)
	if err != nil {
		return nil, err
	}
	p.consumers = "http://127.0.0.1:" + ports["8080"]
	p.peers = "https://127.0.0.1:" + ports["5500"]
	config, err := p.adapt(text)
	if err != nil {
		return nil, fmt.Errorf("adapting the example: %w", err)
	}

	// What is logged until the configuration has said where to is seen only if starting fails.
	_, logger, _ := caddy.BufferedLog()
	defer caddy.UnbufferDefaultLogger(logger)
	if err := caddy.Load(config, true); err != nil {
		return nil, fmt.Errorf("starting the security servers: %w", err)
	}
	return p, nil
}

// close stops the servers and removes what they wrote.
func (p *pair) close() error {
	return errors.Join(caddy.Stop(), os.RemoveAll(p.dir))
}

// evidence is where a security server of the example keeps evidence when its configuration says nothing else.
func (p *pair) evidence(server string) string {
	return filepath.Join(caddy.AppDataDir(), "xroad", server, "evidence")
}

// storage is where the servers of the example keep their keys.
func (p *pair) storage() *certmagic.FileStorage {
	return &certmagic.FileStorage{Path: caddy.AppDataDir()}
}

func (p *pair) log() string { return filepath.Join(p.dir, "log") }

var (
	// examplePort is a port of the example: of a site, an address, or its servers option.
	examplePort = regexp.MustCompile(`:(8080|5500|5577|9000|9001)\b`)
	// exampleServer is the first line of a security server of the example.
	exampleServer = regexp.MustCompile(`(?m)^\s*xroad \S+ \{$`)
)

// move rewrites the example's Caddyfile for free ports.
func move(example string) (text string, ports map[string]string, err error) {
	ports = map[string]string{}
	for _, m := range examplePort.FindAllStringSubmatch(example, -1) {
		ports[m[1]] = ""
	}
	free, err := freeport.Find(len(ports))
	if err != nil {
		return "", nil, err
	}
	i := 0
	for port := range ports {
		ports[port] = strconv.Itoa(free[i])
		i++
	}
	text = examplePort.ReplaceAllStringFunc(example, func(m string) string { return ":" + ports[m[1:]] })
	text = exampleServer.ReplaceAllStringFunc(text, func(m string) string {
		return fmt.Sprintf("%s\nports {\npeer %s\nocsp %s\n}", m, ports["5500"], ports["5577"])
	})
	return text, ports, nil
}

// adapt turns the Caddyfile into JSON and adds what a demo does differently: it has no admin endpoint, says nothing on
// the terminal, and does not wait long for others when it ends.
func (p *pair) adapt(text string) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	if adapter == nil {
		return nil, errors.New("this binary has no Caddyfile adapter")
	}
	adapted, _, err := adapter.Adapt([]byte(text), map[string]any{"filename": "Caddyfile.example"})
	if err != nil {
		return nil, err
	}
	var config map[string]any
	if err := json.Unmarshal(adapted, &config); err != nil {
		return nil, err
	}
	config["admin"] = map[string]any{"disabled": true, "config": map[string]any{"persist": false}}
	config["storage"] = map[string]any{"module": "file_system", "root": p.storage().Path}
	config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
		"writer": map[string]any{"output": "file", "filename": p.log(), "roll": false},
	}}}
	apps, _ := config["apps"].(map[string]any)
	http, _ := apps["http"].(map[string]any)
	if http == nil {
		return nil, errors.New("there is no http app in it")
	}
	http["grace_period"] = int64(2 * time.Second)
	return json.Marshal(config)
}

// explain writes a message to files and says what one can do with the running servers.
func (p *pair) explain(w io.Writer) error {
	request, attachment := filepath.Join(p.dir, "request.xml"), filepath.Join(p.dir, "attachment.bin")
	if err := os.WriteFile(request, envelope(demoService, newMessageID(), returnAttachments), 0o666); err != nil {
		return err
	}
	octets, err := io.ReadAll(newGenerated("attachment.bin", 1<<20))
	if err != nil {
		return err
	}
	if err := os.WriteFile(attachment, octets, 0o666); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, `
The servers go on until you press Ctrl-C. Things to try in another terminal:

  a plain message:
    curl -sS -H 'Content-Type: text/xml; charset=UTF-8' --data-binary @%[1]s %[2]s

  with an attachment, which comes back in the answer:
    curl -sS -D - -o %[7]s -H 'Content-Type: multipart/related; type="text/xml"' \
      -F 'envelope=@%[1]s;type=text/xml' -F 'attachment=@%[3]s;type=application/octet-stream' %[2]s

  the same, by the command made for it:
    %[4]s xroad send %[2]s %[1]s --attach %[3]s

  what the sending server signed and verified:
    %[4]s xroad evidence list --dir %[5]s

  whether all of that is still there, and as it was:
    %[4]s xroad evidence verify --dir %[5]s --trust %[8]s

  what both servers say meanwhile:
    tail -f %[6]s

`, request, p.consumers, attachment, invocation(), p.evidence("ss1"), p.log(), filepath.Join(p.dir, "answer"), p.trustFile())
	return err
}

// invocation is how this binary can be called again.
func invocation() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return binary()
}
