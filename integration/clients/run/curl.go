// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A handiwork is how somebody with curl sends a message: the files that are written for it, by name, and the arguments.
type handiwork func(out outgoing) (files map[string][]byte, args []string)

// curl returns the sender that runs curl in a folder with those files, with more arguments if there are any.
func curl(work handiwork, more ...string) sender {
	return func(url string, out outgoing) (*answered, error) {
		folder, err := os.MkdirTemp("", "fairway-curl-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(folder)
		files, args := work(out)
		for name, octets := range files {
			if err := os.WriteFile(filepath.Join(folder, name), octets, 0o644); err != nil {
				return nil, err
			}
		}
		args = append(args, more...)
		cmd := exec.Command("curl", append(args, "-sS", "--max-time", "60", "-o", "answer", "-w", "%{content_type}", url)...)
		cmd.Dir = folder
		contentType, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("curl %s: %w", strings.Join(args, " "), err)
		}
		body, err := os.ReadFile(filepath.Join(folder, "answer"))
		return &answered{contentType: string(contentType), body: body}, err
	}
}

// asFile sends a body from a file as it is.
func asFile(contentType string, body []byte) (map[string][]byte, []string) {
	return map[string][]byte{"message": body}, []string{"-H", "Content-Type: " + contentType, "--data-binary", "@message"}
}

// handMade is a message in a file with all that should be in it.
func handMade(out outgoing) (map[string][]byte, []string) { return asFile(out.pack()) }

// bare is a multipart message in a file with as little as can be in it.
func bare(out outgoing) (map[string][]byte, []string) {
	var b bytes.Buffer
	b.WriteString("--simple\r\nContent-Type: text/xml\r\n\r\n")
	b.Write(out.envelope)
	for _, f := range out.files {
		b.WriteString("\r\n--simple\r\nContent-Type: application/octet-stream\r\n\r\n")
		b.Write(f)
	}
	b.WriteString("\r\n--simple--\r\n")
	return asFile("multipart/related; boundary=simple", b.Bytes())
}

// editor is the same as somebody types it who does not think of line ends.
func editor(out outgoing) (map[string][]byte, []string) {
	var b bytes.Buffer
	b.WriteString("A message of ours.\n--simple\nContent-Type: text/xml\n\n")
	b.Write(out.envelope)
	for _, f := range out.files {
		b.WriteString("\n--simple\nContent-Type: application/octet-stream\n\n")
		b.Write(f)
	}
	b.WriteString("\n--simple--")
	return asFile("multipart/related; boundary=simple", b.Bytes())
}

// partFiles returns the envelope and the files, each in a file.
func partFiles(out outgoing) map[string][]byte {
	files := map[string][]byte{"envelope.xml": out.envelope}
	for i, f := range out.files {
		files[fmt.Sprint("file", i)] = f
	}
	return files
}

// related has curl make the parts of a multipart/related message, with the attachments encoded so.
func related(encoder string) handiwork {
	return func(out outgoing) (map[string][]byte, []string) {
		outer, inner := out.types()
		args := []string{
			"-H", fmt.Sprintf(`Content-Type: multipart/related; type=%q; start="<%s>"`, outer, rootID),
			"-F", fmt.Sprintf(`envelope=<envelope.xml;headers=%q;headers="Content-ID: <%s>"`, "Content-Type: "+inner, rootID),
		}
		for i := range out.files {
			args = append(args, "-F", fmt.Sprintf(`file%d=@file%d;type=application/octet-stream;encoder=%s;headers="Content-ID: <%s>"`,
				i, i, encoder, fileID(i)))
		}
		return partFiles(out), args
	}
}

// formData is what -F makes of itself.
func formData(out outgoing) (map[string][]byte, []string) {
	args := []string{"-F", "envelope=<envelope.xml;type=text/xml"}
	for i := range out.files {
		args = append(args, "-F", fmt.Sprintf("file%d=@file%d", i, i))
	}
	return partFiles(out), args
}

// urlEncoded is what -d makes of itself.
func urlEncoded(out outgoing) (map[string][]byte, []string) {
	return map[string][]byte{"envelope.xml": out.envelope}, []string{"-d", "@envelope.xml"}
}
