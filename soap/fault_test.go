// SPDX-License-Identifier: Apache-2.0

package soap

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func faultIn(children string) string {
	return `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><s:Fault>` + children + `</s:Fault></s:Body></s:Envelope>`
}

func TestParseFault(t *testing.T) {
	long := strings.Repeat("x", maxFault)
	for _, c := range []struct {
		name, text string
		want       Fault
	}{
		{"all", faultIn("<faultcode>C</faultcode><faultstring>S</faultstring><faultactor>A</faultactor><detail><faultDetail xmlns=''>D</faultDetail></detail>"), Fault{"C", "S", "A", "D"}},
		{"nothing", faultIn(""), Fault{}},
		{"in another order, with white space", faultIn("\n <faultstring> S\r\n&lt;<![CDATA[&]]></faultstring>\n <faultcode>C</faultcode>\n"), Fault{Code: "C", String: " S\n<&"}},
		{"detail of another namespace", faultIn("<detail><x:a xmlns:x='u'><x:faultDetail>1</x:faultDetail></x:a><faultDetail>2</faultDetail></detail>"), Fault{Detail: "1"}},
		{"detail without its wrap", faultIn("<faultDetail>1</faultDetail>"), Fault{Detail: "1"}},
		{"structured detail", faultIn("<detail><x:detail xmlns:x='u'>1</x:detail></detail>"), Fault{}},
		{"fields of a namespace", faultIn("<s:faultcode>1</s:faultcode><faultstring xmlns='u'>2</faultstring>"), Fault{}},
		{"fields deeper", faultIn("<detail><faultcode>1</faultcode></detail>"), Fault{}},
		{"fields outside", strings.Replace(faultIn("<faultcode>C</faultcode>"), "<s:Body>", "<s:Header><faultcode>1</faultcode><s:Fault><faultcode>2</faultcode></s:Fault></s:Header><s:Body>", 1), Fault{Code: "C"}},
		{"a second fault", strings.Replace(faultIn("<faultcode>C</faultcode>"), "</s:Body>", "<s:Fault><faultcode>2</faultcode></s:Fault></s:Body>", 1), Fault{Code: "C"}},
		{"in another charset", "<?xml version='1.0' encoding='ISO-8859-1'?>" + faultIn("<faultstring>\xE4</faultstring>"), Fault{String: "ä"}},
		{"with much behind it", faultIn("<faultcode>C</faultcode>") + "<!--" + long, Fault{Code: "C"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ParseFault([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if *f != c.want {
				t.Errorf("%+v, want %+v", *f, c.want)
			}
		})
	}
	for _, c := range []struct{ name, text, cause string }{
		{"no fault", base, "invalid_message"},
		{"no envelope", "<a/>", "invalid_message"},
		{"fault of another namespace", strings.ReplaceAll(faultIn(""), "s:Fault", "Fault"), "invalid_message"},
		{"fault deeper", strings.Replace(faultIn("<a/>"), "<s:Body>", "<s:Body><s:Body>", 1) + "</s:Envelope>", "invalid_soap"},
		{"fault too long", faultIn(long), "invalid_message"},
		{"not well-formed", faultIn("<a>"), "invalid_soap"},
		{"cut", faultIn("")[:100], "invalid_soap"},
		{"nothing", "", "invalid_soap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ParseFault([]byte(c.text))
			var bad *Error
			if !errors.As(err, &bad) || bad.Cause() != c.cause || f != nil {
				t.Errorf("%v, %v", f, err)
			}
		})
	}
}

func TestFaultBytes(t *testing.T) {
	for _, c := range []struct {
		name     string
		in, want Fault
	}{
		{"plain", Fault{"server.serverproxy.access_denied", "no", "", "1"}, Fault{"server.serverproxy.access_denied", "no", "", "1"}},
		{"empty", Fault{}, Fault{}},
		{"escaped", Fault{"<&>", "\"']]>\r\n\t ", "ä😀", "</faultDetail>"}, Fault{"<&>", "\"']]>\r\n\t ", "ä😀", "</faultDetail>"}},
		{"not XML", Fault{String: "a\x00b\xFFc\uFFFE"}, Fault{String: "a\uFFFDb\uFFFDc\uFFFD"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := c.in.Bytes()
			got, err := ParseFault(data)
			if err != nil || *got != c.want {
				t.Errorf("%+v, %v", got, err)
			}
			if o := openAll(t, data, "UTF-8"); o.err != nil || !o.fault {
				t.Errorf("%+v", o)
			}
		})
	}
	const want = `<?xml version="1.0" encoding="UTF-8"?><SOAP-ENV:Envelope xmlns:SOAP-ENV="http://schemas.xmlsoap.org/soap/envelope/"><SOAP-ENV:Body><SOAP-ENV:Fault><faultcode>C</faultcode><faultstring>S</faultstring><faultactor></faultactor><detail><faultDetail xmlns="">D</faultDetail></detail></SOAP-ENV:Fault></SOAP-ENV:Body></SOAP-ENV:Envelope>`
	if got := (&Fault{Code: "C", String: "S", Detail: "D"}).Bytes(); string(got) != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestVectorFaults(t *testing.T) {
	for file, want := range map[string]Fault{
		"soap-requests/fault.query":          {"CODE", "STRING", "ACTOR", "DETAIL"},
		"soap-responses/customfault.answer":  {"foo:FOOCODE", "STRING", "ACTOR", ""},
		"soap-responses/faulty-fault.answer": {Code: "soap:Server"},
	} {
		got, err := ParseFault(readVector(t, file))
		if err != nil || got.Code != want.Code || want.String != "" && *got != want {
			t.Errorf("%s: %+v, %v", file, got, err)
		}
	}
}

func FuzzFault(f *testing.F) {
	f.Add([]byte(faultIn("<faultcode>C</faultcode><detail><faultDetail>D</faultDetail></detail>")))
	f.Add([]byte(base))
	f.Fuzz(func(t *testing.T, data []byte) {
		fault, err := ParseFault(data)
		if err != nil {
			return
		}
		again, err := ParseFault(fault.Bytes())
		if err != nil || *again != *fault {
			t.Errorf("%+v became %+v, %v", fault, again, err)
		}
	})
}

// FuzzFaultBytes checks that a fault of any text is an envelope.
func FuzzFaultBytes(f *testing.F) {
	f.Add("C", "S", "A", "D")
	f.Add("<", "]]>", "\x00", "\xFF")
	f.Fuzz(func(t *testing.T, code, text, actor, detail string) {
		data := (&Fault{code, text, actor, detail}).Bytes()
		e, err := Open(strings.NewReader(string(data)), "UTF-8", Limits{})
		if err != nil || !e.Fault {
			t.Fatalf("%+v, %v", e, err)
		}
		if _, err := io.Copy(io.Discard, e); err != nil {
			t.Error(err)
		}
	})
}
