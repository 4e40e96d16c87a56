// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"bytes"
	"encoding/binary"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// idByStandard is what the standard library's decoder, with care, finds in the id block: the own text of the element
// at its place.
func idByStandard(data []byte) (id string) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))))
	var path []xml.Name
	want := []xml.Name{{Space: soapSpace, Local: "Envelope"}, {Space: soapSpace, Local: "Header"}, {Space: xroadSpace, Local: "id"}}
	for {
		token, err := d.Token()
		if err != nil {
			return id
		}
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name)
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) == len(want) && path[0] == want[0] && path[1] == want[1] && path[2] == want[2] {
				id += string(token)
			}
		}
	}
}

// FuzzOpen checks that pieces make no difference, that what is accepted is read as another parser reads it, and that a
// request hash can be put in.
func FuzzOpen(f *testing.F) {
	for _, charset := range []string{"", "utf-8", "utf-16", "us-ascii", "x"} {
		f.Add([]byte(base), charset)
	}
	f.Add([]byte(faultIn("")), "")
	f.Add(append([]byte("\xFF\xFE"), inUTF16(binary.LittleEndian, declaring("", "a"))...), "utf-16")
	f.Add([]byte(declaring("ISO-8859-1", "\xE4")), "")
	f.Add([]byte(strings.Replace(base, "<x:id>msg-0001</x:id>", "<x:requestHash/><x:id>a\r\n<![CDATA[b\r]]>\n&#13;<c>d</c></x:id>", 1)), "")
	files, _ := filepath.Glob(filepath.Join(vectors, "soap-*", "*"))
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			f.Add(data, "")
		}
	}
	f.Fuzz(checkEnvelope)
}

// FuzzBlocks is FuzzOpen for what stands at four places of a message that is right otherwise.
func FuzzBlocks(f *testing.F) {
	f.Add("", "<x:requestHash/>", "a\r\n<![CDATA[b\r]]>\n&#13;<c>d</c>", "<a b='c'/>")
	f.Add("xmlns='http://x-road.eu/xsd/xroad.xsd'", "<id/><y:issue xmlns:y='u'/>", "<!-- ä -->ä", "]]&gt;")
	f.Add("a='&lt;'", "<?p i?>", "&#x41;", "<x:id>&amp;</x:id>")
	f.Fuzz(func(t *testing.T, attribute, block, id, body string) {
		data := strings.NewReplacer("<s:Header>", "<s:Header "+attribute+">"+block, "msg-0001", id, "<t:getThing/>", "<t:getThing>"+body+"</t:getThing>").Replace(declaring("", "msg-0001"))
		checkEnvelope(t, []byte(data), "")
	})
}

func checkEnvelope(t *testing.T, data []byte, charset string) {
	got := openAll(t, data, charset)
	if got.err != nil {
		return
	}
	if !bytes.Equal(got.octets, data) {
		t.Error("the octets changed")
	}
	if ascii := !bytes.Contains(data, []byte("encoding")) && !bytes.Contains(data, []byte{0}); ascii && acceptedByStandard(data) == nil {
		if id := idByStandard(data); id != got.header.ID {
			t.Errorf("id %q, by encoding/xml %q", got.header.ID, id)
		}
	}
	e, err := Open(bytes.NewReader(data), charset, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(e.WithRequestHash(sum[:]))
	if err != nil {
		t.Fatal(err)
	}
	after, err := Open(bytes.NewReader(out), "", Limits{Header: 1 << 20})
	if err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if _, err := io.Copy(io.Discard, after); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if err := Consistent(&e.Header, &after.Header); err != nil {
		t.Error(err)
	}
	if h := after.Header.RequestHash; !e.Fault && (h == nil || *h != sum4) {
		t.Errorf("%q", out)
	}
}
