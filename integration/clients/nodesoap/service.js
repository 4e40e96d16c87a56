// SPDX-License-Identifier: Apache-2.0
// The echo service on node soap, which neither reads nor writes attachments: service.js PORT
const fs = require('fs');
const http = require('http');
const soap = require('soap');
const { wsdl, blocks, path } = require('./vocabulary');

const echo = (request) => ({ text: request.text });

const server = http.createServer();
server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  const service = soap.listen(server, '/echo', { EchoService: { EchoPort: { echo } } }, fs.readFileSync(wsdl, 'utf8'));
  service.addSoapHeader((method, answer, header) =>
    blocks(path(header.client), path(header.service), header.userId, header.id));
});
