// SPDX-License-Identifier: Apache-2.0
// The echo exchange in the interface language of soapcpp2.
#import "stlvector.h"

//gsoap e service name: echo
//gsoap e service style: document
//gsoap e service encoding: literal
//gsoap e service namespace: urn:fairway:echo
//gsoap e schema namespace: urn:fairway:echo
//gsoap e schema form: qualified
//gsoap xrd schema namespace: http://x-road.eu/xsd/xroad.xsd
//gsoap id schema namespace: http://x-road.eu/xsd/identifiers
//gsoap xop schema namespace: http://www.w3.org/2004/08/xop/include

/// Octets in the body; a part of its own under SOAP_ENC_MTOM.
class xsd__base64Binary {
 public:
  unsigned char *__ptr;
  int __size;
  char *id;
  char *type;
  char *options;
};

class xrd__Identifier {
 public:
  @std::string id__objectType;
  std::string id__xRoadInstance;
  std::string id__memberClass;
  std::string id__memberCode;
  std::string id__subsystemCode;
  std::string *id__serviceCode;
  std::string *id__serviceVersion;
};

struct SOAP_ENV__Header {
  xrd__Identifier *xrd__client;
  xrd__Identifier *xrd__service;
  std::string *xrd__userId;
  std::string *xrd__id;
  std::string *xrd__protocolVersion;
};

class e__echoResponse {
 public:
  std::string e__text;
  std::vector<std::string> e__sum;
  std::vector<xsd__base64Binary> e__file;
};

int e__echo(std::string e__text, std::string e__reply, std::vector<std::string> e__make,
            std::vector<xsd__base64Binary> e__file, e__echoResponse &response);
