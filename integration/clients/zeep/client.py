# SPDX-License-Identifier: Apache-2.0
"""The echo client on zeep, which reads attachments but sends none.

usage: client.py URL CLIENT SERVICE SIZES CASE...
"""
import hashlib
import json
import pathlib
import sys

from lxml import etree
import zeep
import zeep.plugins

NS = "urn:fairway:echo"
XROAD = "{http://x-road.eu/xsd/xroad.xsd}"
IDENTIFIERS = "{http://x-road.eu/xsd/identifiers}"
FIELDS = ["xRoadInstance", "memberClass", "memberCode", "subsystemCode", "serviceCode", "serviceVersion"]


def make(spec):
    """The octets of a file "size:seed": xorshift32, the low octet of every step."""
    size, x = map(int, spec.split(":"))
    out = bytearray(size)
    for i in range(size):
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        out[i] = x & 0xFF
    return bytes(out)


def identifier(name, kind, value):
    block = etree.Element(XROAD + name, {IDENTIFIERS + "objectType": kind})
    for field, segment in zip(FIELDS, value.split("/")):
        etree.SubElement(block, IDENTIFIERS + field).text = segment
    return block


def text(name, value):
    block = etree.Element(XROAD + name)
    block.text = value
    return block


def call(url, client, service, sizes, case):
    """Returns what is wrong with the answer, or nothing."""
    form, _, direction = case.partition("-")
    wanted = [f"{s}:{i + 101}" for i, s in enumerate(sizes.split(",")) if direction == "response"]
    history = zeep.plugins.HistoryPlugin()
    wsdl = pathlib.Path(__file__).parent.parent / "echo.wsdl"
    proxy = zeep.Client(str(wsdl), plugins=[history]).create_service("{%s}EchoBinding" % NS, url)
    answer = proxy.echo(
        text="väylä & <tee> " + case,
        reply=form,
        make=wanted,
        _soapheaders=[
            identifier("client", "SUBSYSTEM", client),
            identifier("service", "SERVICE", service),
            text("userId", "EE1234567890"),
            text("id", "id-" + case),
            text("protocolVersion", "4.0"),
        ],
    )
    files = []
    if hasattr(answer, "attachments"):  # zeep.wsdl.attachments.MessagePack
        files = [a.content for a in answer.attachments]
        answer = answer.root
    files = answer.file or files
    if history.last_received["envelope"].findtext(".//" + XROAD + "id") != "id-" + case:
        return "the answer has another id"
    if answer.text != "väylä & <tee> " + case:
        return "the answer's text is " + answer.text
    if answer.sum:
        return "the service received files"
    got, want = ([hashlib.sha256(f).hexdigest() for f in fs] for fs in (files, map(make, wanted)))
    return "" if got == want else f"the client received {got}"


for case in sys.argv[5:]:
    try:
        error = call(*sys.argv[1:5], case)
    except Exception as e:
        error = repr(e)
    print(json.dumps({"case": case, "ok": not error, "error": error}), flush=True)
