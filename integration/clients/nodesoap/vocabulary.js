// SPDX-License-Identifier: Apache-2.0
// The vocabulary of the echo exchange.
const crypto = require('crypto');
const path = require('path');

exports.wsdl = path.join(__dirname, '..', 'echo.wsdl');

// make returns the octets of a file "size:seed": xorshift32, the low octet of every step.
exports.make = (spec) => {
  let [size, x] = spec.split(':').map(Number);
  const out = Buffer.alloc(size);
  for (let i = 0; i < size; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    out[i] = x & 0xff;
  }
  return out;
};

exports.sum = (file) => crypto.createHash('sha256').update(file).digest('hex');

exports.list = (value) => (value === undefined ? [] : [].concat(value));

const fields = ['xRoadInstance', 'memberClass', 'memberCode', 'subsystemCode', 'serviceCode', 'serviceVersion'];

const identifier = (name, type, value) =>
  `<xrd:${name} id:objectType="${type}">` +
  value.split('/').map((s, i) => `<id:${fields[i]}>${s}</id:${fields[i]}>`).join('') +
  `</xrd:${name}>`;

// path is what identifier was made from, given the block as node soap parsed it.
exports.path = (block) => fields.filter((f) => f in block).map((f) => block[f]).join('/');

// blocks returns the X-Road header blocks; the prefixes are declared on the first element of each.
exports.blocks = (client, service, userId, id) =>
  (identifier('client', 'SUBSYSTEM', client) +
    identifier('service', 'SERVICE', service) +
    `<xrd:userId>${userId}</xrd:userId><xrd:id>${id}</xrd:id><xrd:protocolVersion>4.0</xrd:protocolVersion>`
  ).replace(/<(xrd:\w+)/g,
    '<$1 xmlns:xrd="http://x-road.eu/xsd/xroad.xsd" xmlns:id="http://x-road.eu/xsd/identifiers"');
