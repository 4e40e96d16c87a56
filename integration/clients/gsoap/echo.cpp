// SPDX-License-Identifier: Apache-2.0
// The echo client and service on gSOAP: echo client URL CLIENT SERVICE SIZES CASE... | echo service PORT
#include <openssl/sha.h>

#include <cstdint>
#include <iostream>
#include <sstream>

#include "echo.nsmap"
#include "soapH.h"

using std::string;
using std::vector;

static vector<string> split(const string &s, char by) {
  vector<string> out;
  std::stringstream in(s);
  for (string word; std::getline(in, word, by);) out.push_back(word);
  return out;
}

static string bytes(size_t size, uint32_t x) {
  string out(size, 0);
  for (char &c : out) {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    c = char(x);
  }
  return out;
}

static vector<string> make(const vector<string> &specs) {
  vector<string> out;
  for (const string &spec : specs) out.push_back(bytes(std::stoul(spec), std::stoul(spec.substr(spec.find(':') + 1))));
  return out;
}

static vector<string> sums(const vector<string> &files) {
  vector<string> out;
  for (const string &file : files) {
    unsigned char sum[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char *>(file.data()), file.size(), sum);
    char hex[2 * sizeof sum + 1];
    for (size_t i = 0; i < sizeof sum; i++) snprintf(hex + 2 * i, 3, "%02x", sum[i]);
    out.push_back(hex);
  }
  return out;
}

static const string option = getenv("OPTION") ? getenv("OPTION") : "";

// Files without a size, read piece by piece while the message is sent, one after the other.
static size_t offset;

static void *open_file(soap *, void *file, const char *, const char *, const char *) {
  offset = 0;
  return file;
}

static size_t read_file(soap *, void *file, char *to, size_t size) {
  size_t n = static_cast<string *>(file)->copy(to, size, offset);
  offset += n;
  return n;
}

static void close_file(soap *, void *) {}

// A context with the option's modes.
static soap *context() {
  soap *soap = soap_new1(SOAP_C_UTFSTRING);
  if (option == "chunked" || option == "streaming") soap_set_omode(soap, SOAP_IO_CHUNK);
  if (option == "dime") soap_set_omode(soap, SOAP_ENC_DIME);
  if (option == "streaming") {
    soap->fmimereadopen = open_file;
    soap->fmimeread = read_file;
    soap->fmimereadclose = close_file;
  }
  return soap;
}

// Puts files on the next message in the given form; they must live until it is sent.
static void attach(soap *soap, const string &form, vector<string> &files, vector<xsd__base64Binary> &body) {
  soap_clr_omode(soap, SOAP_ENC_MTOM);
  if (form == "mtom" && option != "dime") soap_set_omode(soap, SOAP_ENC_MTOM);
  if (form == "swa" && !files.empty()) soap_set_mime(soap, nullptr, "<root@fairway.example>");
  for (size_t i = 0; i < files.size(); i++) {
    char *data = option == "streaming" ? reinterpret_cast<char *>(&files[i]) : files[i].data();
    size_t size = option == "streaming" ? 0 : files[i].size();
    string id = "<file" + std::to_string(i) + "@fairway.example>";
    if (form == "swa") {
      soap_set_mime_attachment(soap, data, size, SOAP_MIME_BINARY, "application/octet-stream",
                               soap_strdup(soap, id.c_str()), nullptr, nullptr);
      continue;
    }
    xsd__base64Binary file;
    file.soap_default(soap);
    file.__ptr = reinterpret_cast<unsigned char *>(data);
    file.__size = size;
    if (form == "mtom") file.type = soap_strdup(soap, "application/octet-stream");
    body.push_back(file);
  }
}

// The files that the body names, or else all attachments.
static vector<string> received(soap *soap, const vector<xsd__base64Binary> &body) {
  vector<string> out;
  for (const auto &file : body) out.emplace_back(reinterpret_cast<char *>(file.__ptr), file.__size);
  if (out.empty() && soap->mime.list)  // whose first is the envelope
    for (soap_multipart *p = soap->mime.list->next; p; p = p->next) out.emplace_back(p->ptr, p->size);
  return out;
}

static vector<string> attachments;  // of the answer being written; the service is single-threaded

int e__echo(soap *soap, string text, string reply, vector<string> wanted, vector<xsd__base64Binary> files,
            e__echoResponse &response) {
  response.e__text = text;
  response.e__sum = sums(received(soap, files));
  attachments = make(wanted);
  soap_clr_mime(soap);
  attach(soap, reply, attachments, response.e__file);
  return SOAP_OK;  // soap->header still holds the request's blocks and goes out with the answer
}

static int service(int port) {
  soap *soap = context();
  soap->bind_flags = SO_REUSEADDR;
  if (!soap_valid_socket(soap_bind(soap, "127.0.0.1", port, 100))) return 1;
  while (soap_valid_socket(soap_accept(soap))) {
    if (soap_serve(soap) != SOAP_OK) soap_print_fault(soap, stderr);
    soap_destroy(soap);
    soap_end(soap);
  }
  return 1;
}

static xrd__Identifier *identifier(soap *soap, const string &type, const string &value) {
  vector<string> s = split(value, '/');
  xrd__Identifier *id = soap_new_xrd__Identifier(soap, -1);
  id->id__objectType = type;
  id->id__xRoadInstance = s[0];
  id->id__memberClass = s[1];
  id->id__memberCode = s[2];
  id->id__subsystemCode = s[3];
  if (s.size() > 4) id->id__serviceCode = &(*soap_new_std__string(soap, -1) = s[4]);
  if (s.size() > 5) id->id__serviceVersion = &(*soap_new_std__string(soap, -1) = s[5]);
  return id;
}

static string call(char **args, const string &name) {
  string form = name.substr(0, name.find('-')), direction = name.substr(name.find('-') + 1);
  vector<string> out, in, sizes = split(args[3], ',');
  for (size_t n = 0; n < sizes.size(); n++) {
    if (direction == "request" || direction == "both") out.push_back(sizes[n] + ":" + std::to_string(n + 1));
    if (direction == "response" || direction == "both") in.push_back(sizes[n] + ":" + std::to_string(n + 101));
  }
  soap *soap = context();
  string user = "EE1234567890", id = "id-" + name, version = "4.0", text = "väylä & <tee> " + name;
  SOAP_ENV__Header header;
  header.xrd__client = identifier(soap, "SUBSYSTEM", args[1]);
  header.xrd__service = identifier(soap, "SERVICE", args[2]);
  header.xrd__userId = &user;
  header.xrd__id = &id;
  header.xrd__protocolVersion = &version;
  soap->header = &header;
  vector<string> files = make(out);
  vector<xsd__base64Binary> body;
  attach(soap, form, files, body);
  e__echoResponse response;
  if (soap_call_e__echo(soap, args[0], "", text, in.empty() ? "plain" : form, in, body, response) != SOAP_OK) {
    soap_set_fault(soap);
    return string(*soap_faultcode(soap)) + ": " + *soap_faultstring(soap);
  }
  if (!soap->header || !soap->header->xrd__id || *soap->header->xrd__id != id) return "the answer has another id";
  if (response.e__text != text) return "the answer's text is " + response.e__text;
  if (response.e__sum != sums(files)) return "the service received other files";
  if (sums(received(soap, response.e__file)) != sums(make(in))) return "the client received other files";
  return "";
}

int main(int argc, char **argv) {
  if (string(argv[1]) == "service") return service(atoi(argv[2]));
  for (int i = 6; i < argc; i++) {
    string error = call(argv + 2, argv[i]);
    for (char &c : error)
      if (c == '"' || c == '\\' || (unsigned char)c < ' ') c = ' ';
    std::cout << "{\"case\":\"" << argv[i] << "\",\"ok\":" << (error.empty() ? "true" : "false") << ",\"error\":\"" << error
              << "\"}" << std::endl;
  }
}
