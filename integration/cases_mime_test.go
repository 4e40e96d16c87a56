// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// TestFieldContentType: what real clients write into a Content-Type is understood and goes on as they wrote it.
func TestFieldContentType(t *testing.T) {
	f := newField(t)
	file := octetsOf(2048, 1)
	with := func(number, about, contentType, boundary string) fieldCase {
		return fieldCase{number: number, about: about, contentType: contentType, body: form(boundary, rootPart, filePart+file), attachments: []string{file}}
	}
	refused := func(number, about, contentType, says string) fieldCase {
		return fieldCase{number: number, about: about, contentType: contentType, body: form("b1", rootPart, filePart+file), code: "client.invalid_content_type", says: says}
	}
	x70 := strings.Repeat("x", 70)
	f.run(t, []fieldCase{
		with("FR-01", "boundary with colons without quotes, apostrophes around the type", "multipart/related; start-info=text/xml; type='application/xop+xml'; boundary=:pLmN0okBijVuhC:", ":pLmN0okBijVuhC:"),
		with("FR-02a", "equals signs in a bare boundary", "multipart/related; boundary=----=_Part_31_77.5; type=text/xml", "----=_Part_31_77.5"),
		with("FR-02b", "bare start in angle brackets", "multipart/related; type=application/xop+xml; boundary=b1; start=<root>", "b1"),
		with("FR-02c", "bare boundary with a colon", `multipart/related; boundary=uuid:7a-9c; type="application/xop+xml"`, "uuid:7a-9c"),
		with("FR-02d", "empty parameter", `multipart/related; charset=; boundary="b1"`, "b1"),
		with("FR-02", "slash in a bare boundary", "multipart/related; boundary=a/b/c; type=text/xml", "a/b/c"),
		with("FR-02", "tab and blanks around parameters", "multipart/related;\tboundary = \"b1\" ;\ttype=text/xml ;", "b1"),
		with("FR-02", "the same boundary twice", `multipart/related; boundary=b1; type=text/xml; Boundary="b1"`, "b1"),
		with("FR-02", "a blank before the equals sign, and upper case", `multipart/related; Boundary ="b1"; type=text/xml`, "b1"),
		with("FR-02", "boundary in apostrophes", `multipart/related; boundary='b1'; type=text/xml`, "'b1'"),
		refused("FR-02", "boundary in pieces", `multipart/related; boundary*0=b; boundary*1=1; type=text/xml`, "RFC 2231"),
		refused("FR-02", "boundary in percent encoding", `multipart/related; type=text/xml; boundary*=us-ascii'en'b%31`, "RFC 2231"),
		with("FR-04", "all punctuation that a boundary may have", `multipart/related; boundary="a b'()+_,-./:=?z"; type="text/xml"`, "a b'()+_,-./:=?z"),
		with("FR-04", "boundary of 70", "multipart/related; type=text/xml; boundary="+x70, x70),
		with("FR-04", "boundary of one", "multipart/related; boundary=Z", "Z"),
		with("FR-04", "escaped character in a boundary", `multipart/related; boundary="a\-b"`, "a-b"),
		with("FR-04", "boundary longer than the standard has it", "multipart/related; boundary="+x70+x70, x70+x70),
		refused("FR-04", "boundary that ends in a blank", `multipart/related; boundary="b1 "`, "ends in a blank"),
		{number: "FR-04", about: "an attachment that ends where the boundary is read with its backslash", contentType: `multipart/related; boundary="a\-b"`,
			body: form("a-b", rootPart, filePart+"x\r\n--a\\-b\r\ny"), code: "client.invalid_content_type", says: "delimiter line of another boundary"},
		{number: "FR-04", about: "an attachment that ends where a lone CR ends a line", contentType: related1,
			body: form("b", rootPart, filePart+"x\r--b\r\ny"), code: "server.serverproxy.service_failed.invalid_content_type", says: "delimiter line of another boundary"},
		{number: "FR-04", about: "boundary beyond our limit", contentType: "multipart/related; boundary=" + strings.Repeat("x", 5000), code: "client.mime_parsing_failed", says: "limit Boundary"},
		refused("FR-02", "two boundaries that differ", "multipart/related; boundary=b1; boundary=b2", "two parameters boundary"),
		refused("FR-02", "two boundaries, one in percent encoding", "multipart/related; boundary=b1; boundary*=us-ascii''b2", "two parameters boundary"),
		refused("FR-02", "blank in a bare boundary", "multipart/related; boundary=b1 b2", "blank"),
		refused("FR-02", "no boundary", "multipart/related; type=text/xml", "no boundary"),
		refused("FR-02", "quoted string without end", `multipart/related; boundary="b1`, "without end"),
		with("FR-29", "charset without quotes, odd case and order", "Multipart/Related; CHARSET=utf-8; Type=text/xml; boundary=b1", "b1"),
		with("FR-29", "charset in quotes", `multipart/related; charset="utf-8"; type="text/xml"; boundary="b1"`, "b1"),
	})
}

// TestFieldStart: the root is the first part, whatever brackets and cases say so; another one is refused by its header.
func TestFieldStart(t *testing.T) {
	f := newField(t)
	for i, start := range []string{`; start="<r@x>"`, `; start="r@x"`, ""} {
		for j, id := range []string{"<r@x>", "r@x", " <r@x> ", ""} {
			for k, name := range []string{"Content-ID", "Content-Id", "content-id", "CONTENT-ID"} {
				root := "Content-Type: text/xml\r\n\r\n" + env
				if id != "" {
					root = name + ": " + id + "\r\n" + root
				}
				t.Run(fmt.Sprintf("FR-13 start %q, %s %q (%d%d%d)", start, name, id, i, j, k), func(t *testing.T) {
					f.send(t, fieldCase{contentType: "multipart/related; type=text/xml; boundary=b" + start, body: form("b", root, filePart+"x"), attachments: []string{"x"}})
				})
			}
		}
	}

	// The request never ends: only what comes first can decide.
	for _, c := range []fieldCase{
		{number: "FR-14", about: "start names the second part", contentType: `multipart/related; type=text/xml; start="<root>"; boundary=b`, body: "--b\r\nContent-Type: application/octet-stream\r\n\r\n"},
		{number: "FR-14", about: "the first part is no envelope", contentType: `multipart/related; boundary=b`, body: "--b\r\nContent-Type: image/png\r\nContent-ID: <root>\r\n\r\n"},
		{number: "FR-14", about: "the first part looks like one", contentType: `multipart/related; start="<root>"; boundary=b`, body: "--b\r\nContent-Type: text/xml\r\nContent-ID: <other>\r\n\r\n"},
	} {
		c.code, c.says = "client.invalid_content_type", "the SOAP part must be the first part"
		t.Run(c.number+" "+c.about, func(t *testing.T) { f.refusesEndless(t, c) })
	}
	f.run(t, []fieldCase{
		{number: "FR-14", about: "start names an attachment behind a root without id", contentType: `multipart/related; start="<file>"; boundary=b`,
			body: form("b", "Content-Type: text/xml\r\n\r\n"+env, filePart+"x"), code: "client.invalid_content_type", says: "start names attachment 1"},
		{number: "FR-14", about: "type is that of no envelope", contentType: `multipart/related; type="image/png"; boundary=b`,
			body: form("b", rootPart), code: "client.invalid_content_type", says: "image/png"},
	})
}

// TestFieldDelimiters: where a part ends is decided in one way, and what is not of the message does not get on.
func TestFieldDelimiters(t *testing.T) {
	f := newField(t)
	const b = "multipart/related; type=text/xml; boundary=b"
	preamble := "MIME-Version: 1.0\r\nContent-Type: multipart/related;type=\"application/xop+xml\";boundary=\"b\"\r\n\r\n"
	f.run(t, []fieldCase{
		{number: "FR-07", about: "blanks behind the delimiters", contentType: b, attachments: []string{"data"},
			body:    "--b \t\r\n" + rootPart + "\r\n--b\t\r\n" + filePart + "data\r\n--b--  \r\n",
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-07", about: "a longer boundary is data", contentType: b, attachments: []string{"x\r\n--bx\r\n--b_--\r\ny"},
			body: form("b", rootPart, filePart+"x\r\n--bx\r\n--b_--\r\ny")},
		{number: "FR-07", about: "what follows a closing delimiter is epilogue", contentType: b, attachments: []string{"data"},
			body:    "--b\r\n" + rootPart + "\r\n--b\r\n" + filePart + "data\r\n--b-- junk",
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-07", about: "also without a blank", contentType: b, attachments: []string{"data"},
			body:    "--b\r\n" + rootPart + "\r\n--b\r\n" + filePart + "data\r\n--b--junk\r\n--b\r\nmore",
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-07", about: "a delimiter that is followed by something else", contentType: b,
			body: "--b\r\n" + rootPart + "\r\n--b x\r\n" + filePart + "data\r\n--b--\r\n", code: "client.mime_parsing_failed", says: "malformed delimiter line"},
		{number: "FR-08", about: "lines that end in line feeds", contentType: b, attachments: []string{"data"},
			body:    strings.ReplaceAll(form("b", strings.ReplaceAll(rootPart, "\r\n", "\n"), filePart+"data"), "\r\n", "\n"),
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-10a", about: "no closing delimiter", contentType: b,
			body: "--b\r\n" + rootPart + "\r\n--b\r\n" + filePart + "data\r\n", code: "client.mime_parsing_failed", says: "part 2"},
		{number: "FR-10d", about: "no line end behind the closing delimiter", contentType: b, attachments: []string{"data"},
			body:    strings.TrimSuffix(form("b", rootPart, filePart+"data"), "\r\n"),
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-10e", about: "half a closing delimiter", contentType: b,
			body: strings.TrimSuffix(form("b", rootPart, filePart+"data"), "-\r\n"), code: "client.mime_parsing_failed"},
		{number: "FR-10", about: "cut inside the envelope", contentType: b,
			body: "--b\r\n" + rootPart, code: "client.mime_parsing_failed"},
		{number: "FR-11", about: "MIME headers before the first delimiter, text behind the last", contentType: b, attachments: []string{"data"},
			body:    preamble + form("b", rootPart, filePart+"data") + strings.Repeat("tail ", 600),
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-11", about: "empty line before the first delimiter", contentType: b, attachments: []string{"data"},
			body:    "\r\n" + form("b", rootPart, filePart+"data"),
			arrives: form("b", rootPart, filePart+"data")},
		{number: "FR-41", about: "data that looks like headers, line ends at both ends", contentType: b,
			body:        form("b", rootPart, filePart+"\r\n", filePart+"Content-ID: <x>\r\n\r\ny", filePart, filePart+"z\r\n\r\n"),
			attachments: []string{"\r\n", "Content-ID: <x>\r\n\r\ny", "", "z\r\n\r\n"}},
	})
	t.Run("FR-05 the body has another boundary, without end", func(t *testing.T) {
		f.refusesEndless(t, fieldCase{contentType: `multipart/related; boundary="uuid:aaaa"`, body: "--uuid:bbbb\r\n" + rootPart + "\r\n--uuid:bbbb\r\n" + filePart,
			code: "client.mime_parsing_failed", says: "start boundary not found"})
	})
	t.Run("FR-05 the body has another boundary", func(t *testing.T) {
		f.send(t, fieldCase{contentType: `multipart/related; boundary="uuid:aaaa"`, body: form("uuid:bbbb", rootPart), code: "client.missing_soap", says: "boundary never occurs"})
	})
	t.Run("FR-10b chunks end well, without a closing delimiter", func(t *testing.T) {
		id := f.id()
		f.taken()
		body := "--b\r\n" + strings.Replace(rootPart, env, request(id), 1) + "\r\n--b\r\n" + filePart + octetsOf(100_000, 2)
		got := f.system(t).asks(chunked(body, []int{len(body) / 2}, "Content-Type: "+b))
		f.judge(t, fieldCase{code: "client.mime_parsing_failed", says: "part 2"}, id, request(id), got)
	})
	t.Run("FR-10c the connection breaks before the last two dashes", func(t *testing.T) {
		f.taken()
		body := strings.Replace(form("b", rootPart, filePart+octetsOf(100_000, 3)), env, request(f.id()), 1)
		cut := posted(body, "Content-Type: "+b)
		s := f.system(t)
		if _, err := s.conn.Write([]byte(cut[:len(cut)-4])); err != nil {
			t.Fatal(err)
		}
		s.conn.(*net.TCPConn).SetLinger(0) // closes with a reset
		s.conn.Close()
		clean(t)
		if calls := f.taken(); len(calls) != 0 {
			t.Error("the service was called")
		}
	})
	t.Run("FR-11 an epilogue without end", func(t *testing.T) {
		id := f.id()
		f.answers(func(octetRequest) string {
			return httpAnswer("200 OK", "text/xml; charset=utf-8", response(request(id)))
		})
		f.taken()
		body := form("b", rootPart, filePart+"data")
		s := f.system(t)
		s.endless(strings.Replace(body, env, request(id), 1), "Content-Type: "+b)
		got := s.reads()
		if !got.close {
			t.Error("the connection is to be used again")
		}
		f.judge(t, fieldCase{contentType: b, body: body, attachments: []string{"data"}}, id, request(id), got)
	})
	t.Run("FR-07 the next request on a connection", func(t *testing.T) {
		s := f.system(t)
		for _, tail := range []string{"", "junk", " junk\r\n--b\r\n", "\r\n" + strings.Repeat("x", 3000)} {
			id := f.id()
			f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", response(request(id))) })
			f.taken()
			body := form("b", rootPart, filePart+"data")
			got := s.asks(posted(strings.Replace(strings.TrimSuffix(body, "\r\n"), env, request(id), 1)+tail, "Content-Type: "+b))
			if got.close {
				t.Fatalf("the connection is closed after %q", tail)
			}
			f.judge(t, fieldCase{contentType: b, body: body, attachments: []string{"data"}}, id, request(id), got)
		}
	})
}

// TestFieldStraddling moves delimiters over the borders of buffers, and cuts them in every way (FR-08).
func TestFieldStraddling(t *testing.T) {
	f := newField(t)
	for _, boundary := range []string{"Z", strings.Repeat("m", 38), strings.Repeat("x", 70)} {
		contentType := "multipart/related; type=text/xml; boundary=" + boundary
		for _, border := range []int{4096, 8192, 16384, 32768, 65536, 1 << 20} {
			for _, d := range []int{-80, -73, -41, -4, -3, -2, -1, 0, 1, 2, 3, 5, 80} {
				t.Run(fmt.Sprintf("FR-08 boundary of %d, delimiter at %d%+d", len(boundary), border, d), func(t *testing.T) {
					id := f.id()
					front := len(strings.Replace(form(boundary, rootPart), env, request(id), 1)) - len("--\r\n") + len("\r\n"+filePart)
					files := []string{octetsOf(border+d-front, 4), octetsOf(1000, 5), "end"}
					body := form(boundary, rootPart, filePart+files[0], filePart+files[1], filePart+files[2])
					if at := strings.Index(strings.Replace(body, env, request(id), 1), files[0]); at != front {
						t.Fatalf("the attachment begins at %d, not %d", at, front)
					}
					f.send(t, fieldCase{contentType: contentType, body: body, attachments: files})
				})
			}
		}
	}

	const boundary = "boundary-of-a-usual-length"
	const contentType = "multipart/related; type=text/xml; boundary=" + boundary
	files := []string{octetsOf(5000, 6), octetsOf(300, 7), "\r\n--" + boundary[:9]}
	body := form(boundary, rootPart, filePart+files[0], filePart+files[1], filePart+files[2])
	sent := func(t *testing.T, write func(s *system, body string)) {
		id := f.id()
		f.answers(func(octetRequest) string { return httpAnswer("200 OK", "text/xml", response(request(id))) })
		f.taken()
		s := f.system(t)
		go write(s, strings.Replace(body, env, request(id), 1))
		f.judge(t, fieldCase{contentType: contentType, body: body, attachments: files}, id, request(id), s.reads())
	}
	for _, size := range []int{1, 2, 3, 7, 1460} {
		t.Run(fmt.Sprintf("FR-08 writes of %d", size), func(t *testing.T) {
			sent(t, func(s *system, body string) {
				request := posted(body, "Content-Type: "+contentType)
				for len(request) > 0 {
					n := min(size, len(request))
					io.WriteString(s.conn, request[:n])
					request = request[n:]
				}
			})
		})
	}
	for cut := range len("\r\n--" + boundary + "--\r\n") {
		t.Run(fmt.Sprintf("FR-08 chunk that ends %d octets into each delimiter", cut), func(t *testing.T) {
			sent(t, func(s *system, body string) {
				var ends []int
				for at := 0; ; {
					i := strings.Index(body[at:], "\r\n--"+boundary)
					if i < 0 {
						break
					}
					at += i
					ends = append(ends, min(at+cut, len(body)))
					at++
				}
				io.WriteString(s.conn, chunked(body, ends, "Content-Type: "+contentType))
			})
		})
	}
}

// misread are messages that a stack of the field would read in another way than the security servers do: its root would be
// another part, or its parts others (attack 39). Each is refused as a request and as an answer.
var misread = []struct {
	about, contentType, says string
	parts                    []string // the boundary of the body is "b"
}{
	{"the boundary of another parameter's name", "multipart/related; xboundary=A; boundary=b", another, []string{rootPart, forged("A")}},
	{"the boundary of a quoted value", `multipart/related; x="boundary=A"; boundary=b`, another, []string{rootPart, forged("A")}},
	{"the boundary of start-info", `multipart/related; start-info="text/xml;boundary=A"; boundary=b`, another, []string{rootPart, forged("A")}},
	{"the boundary behind a quoted semicolon", `multipart/related; foo="x; boundary=A"; boundary=b`, another, []string{rootPart, forged("A")}},
	{"that boundary inside a line", "multipart/related; xboundary=A; boundary=b", another, []string{rootPart, filePart + "x--A\r\n" + rootPart}},
	{"that boundary inside a header field", "multipart/related; xboundary=A; boundary=b", another, []string{rootPart, "X: y--A\r\n" + filePart + "x"}},
	{"that boundary inside the envelope", "multipart/related; xboundary=ns; boundary=b", another, []string{rootPart + "<!--ns-->", filePart + "x"}},
	{"nothing behind a boundary=", `multipart/related; x="boundary="; boundary=b`, "nothing stands behind", []string{rootPart}},
	{"a blank behind the equals sign", `multipart/related; boundary= "b"`, "nothing stands behind", []string{rootPart}},
	{"a boundary with a blank that is searched for", `multipart/related; Boundary="b c"`, "boundary with a blank", []string{rootPart}},
	{"a boundary with a blank behind a blank", `multipart/related; boundary ="b c"`, "boundary with a blank", []string{rootPart}},
	{"a boundary in another charset", "multipart/related; boundary*=cp037''KL", "RFC 2231", []string{rootPart}},
	{"a longer boundary, where start names no part", `multipart/related; start="<evil>"; boundary=b`, another, []string{idless, forged("bxyz: q")}},
	{"a longer boundary, where start has brackets and the root has none", `multipart/related; start="<evil>"; boundary=b`, another,
		[]string{strings.Replace(rootPart, "<root>", "evil", 1), forged("bxyz: q")}},
	{"start with cid:, as the root's id has it", `multipart/related; start="<cid:evil>"; boundary=b`, odd, []string{strings.Replace(rootPart, "<root>", "<cid:evil>", 1), evilPart}},
	{"start with cid:, and a root without id", "multipart/related; start=CID:evil; boundary=b", odd, []string{idless, evilPart}},
	{"start with an octet before its brackets", `multipart/related; start="x<evil>"; boundary=b`, odd, []string{idless, evilPart}},
	{"start in apostrophes", "multipart/related; start='<evil>'; boundary=b", odd, []string{idless, evilPart}},
	{"start with a backslash", `multipart/related; start="<e\vil>"; boundary=b`, odd, []string{idless, evilPart}},
	{"start in two brackets", `multipart/related; start="<<evil>>"; boundary=b`, odd, []string{idless, evilPart}},
	{"start in percent encoding", `multipart/related; start="<%65vil>"; boundary=b`, odd, []string{idless, evilPart}},
	{"start with a comment", `multipart/related; start="<evil> (c)"; boundary=b`, odd, []string{idless, evilPart}},
	{"start in another charset", "multipart/related; start*=cp037''LKn; boundary=b", odd, []string{idless, evilPart}},
	{"start with a blank", `multipart/related; start="<evil >"; boundary=b`, odd, []string{idless, evilPart}},
	{"an attachment's id with a comment", `multipart/related; start="<evil>"; boundary=b`, "start names attachment 1", []string{idless, strings.Replace(evilPart, "<evil>", "<evil> (c)", 1)}},
	{"an attachment's id with cid:", `multipart/related; start="<evil>"; boundary=b`, "start names attachment 1", []string{idless, strings.Replace(evilPart, "<evil>", "<cid:evil>", 1)}},
	{"an attachment's id in percent encoding", `multipart/related; start="<evil>"; boundary=b`, "start names attachment 1", []string{idless, strings.Replace(evilPart, "<evil>", "<%65vil>", 1)}},
	{"an attachment's id with an octet before it", `multipart/related; start="<evil>"; boundary=b`, "start names attachment 1", []string{idless, strings.Replace(evilPart, "<evil>", "x<evil>", 1)}},
}

const (
	another  = "delimiter line of another boundary"
	odd      = "is not a plain Content-ID"
	idless   = "Content-Type: text/xml; charset=UTF-8\r\n\r\n" + env
	evilPart = "Content-Type: text/xml; charset=UTF-8\r\nContent-ID: <evil>\r\n\r\n<forged/>"
)

// forged returns an attachment in which a reader of another boundary finds an envelope.
func forged(boundary string) string {
	return filePart + "x\r\n--" + boundary + "\r\n" + evilPart
}

func TestFieldMisread_39(t *testing.T) {
	f := newField(t)
	for _, c := range misread {
		boundary := "b"
		if strings.Contains(c.says, "blank") {
			boundary = "b c"
		}
		body := form(boundary, c.parts...)
		t.Run("attack 39 "+c.about, func(t *testing.T) {
			f.send(t, fieldCase{contentType: c.contentType, body: body, code: "client.invalid_content_type", says: c.says})
		})
		t.Run("attack 39 "+c.about+", as an answer", func(t *testing.T) {
			asked := request(f.id())
			got := f.answered(t, httpAnswer("200 OK", c.contentType, strings.Replace(body, env, response(asked), 1)), asked)
			if code := got.code(); code != "server.serverproxy.service_failed.invalid_content_type" || !strings.Contains(got.body, c.says) {
				t.Errorf("got %q: %.600s", code, got.body)
			}
		})
	}

	// Those are read by all as they are meant, or not at all.
	f.run(t, []fieldCase{
		{number: "FR-32d", about: "another boundary that is in no part", contentType: `multipart/related; start-info="x;boundary=fake"; boundary=b`,
			body: form("b", rootPart, filePart+"--fak\r\n"), attachments: []string{"--fak\r\n"}},
		{number: "FR-07", about: "a longer boundary, where the root has the id that start names", contentType: `multipart/related; start="<root>"; boundary=b`,
			body: form("b", rootPart, filePart+"x\r\n--bx\r\ny"), attachments: []string{"x\r\n--bx\r\ny"}},
		{number: "FR-07", about: "a boundary inside a line", contentType: `multipart/related; start="<root>"; boundary=b`,
			body: form("b", rootPart, filePart+"x--b\r\ny"), attachments: []string{"x--b\r\ny"}},
		{number: "FR-13", about: "a boundary inside a line, where the root has no id", contentType: `multipart/related; start="<root>"; boundary=b`,
			body: form("b", idless, filePart+"x--b\r\ny"), attachments: []string{"x--b\r\ny"}},
		{number: "FR-04", about: "a semicolon in a boundary", contentType: `multipart/related; boundary="b;1"`,
			body: form("b;1", rootPart, filePart+"x"), attachments: []string{"x"}},
		{number: "FR-31", about: "start with signs of other stacks", contentType: `multipart/related; start="<root*1:2+3/4@x=y.z,!#$&?~^|{}[]_->"; boundary=b`,
			body: form("b", idless, filePart+"x"), attachments: []string{"x"}},
	})
}
