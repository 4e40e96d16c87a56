// SPDX-License-Identifier: Apache-2.0
// The echo client on node soap: client.js URL CLIENT SERVICE SIZES CASE...
const soap = require('soap');
const { wsdl, make, sum, list, blocks } = require('./vocabulary');

const XOP = 'http://www.w3.org/2004/08/xop/include';

// call returns what is wrong with the answer, or nothing.
async function call(url, client, service, sizes, name) {
  const [form, direction] = name.split('-');
  const sends = direction === 'request' || direction === 'both';
  const receives = direction === 'response' || direction === 'both';
  const files = sends ? sizes.split(',').map((s, i) => make(`${s}:${i + 1}`)) : [];
  const wanted = receives ? sizes.split(',').map((s, i) => `${s}:${i + 101}`) : [];

  const proxy = await soap.createClientAsync(wsdl, { parseResponseAttachments: true }, url);
  proxy.addSoapHeader(blocks(client, service, 'EE1234567890', `id-${name}`));
  const request = { text: `väylä & <tee> ${name}`, reply: receives ? form : 'plain', make: wanted };
  const cid = (i) => `file${i}@fairway.example`;
  if (form === 'mtom') {
    request.file = files.map((_, i) => ({ 'xop:Include': { attributes: { 'xmlns:xop': XOP, href: `cid:${cid(i)}` } } }));
  }
  const attachments = files.map((body, i) =>
    ({ name: `file${i}`, contentId: cid(i), mimetype: 'application/octet-stream', body }));
  const [answer, , header, , multipart] = await proxy.echoAsync(request,
    { attachments, forceMTOM: form === 'mtom' || process.env.OPTION === 'forceMTOM', forceGzip: process.env.OPTION === 'gzip' });

  if (header.id !== `id-${name}`) return `the answer's id is ${header.id}`;
  if (answer.text !== request.text) return `the answer's text is ${answer.text}`;
  if (String(list(answer.sum)) !== String(files.map(sum))) return `the service received ${answer.sum}`;
  const got = multipart ? multipart.parts.map((part) => part.body) : [];
  if (String(got.map(sum)) !== String(wanted.map(make).map(sum))) return `the client received ${got.map(sum)}`;
  return '';
}

(async () => {
  const [url, client, service, sizes, ...names] = process.argv.slice(2);
  for (const name of names) {
    const error = await call(url, client, service, sizes, name).catch(String);
    console.log(JSON.stringify({ case: name, ok: !error, error }));
  }
})();
