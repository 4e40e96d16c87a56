// SPDX-License-Identifier: Apache-2.0

// Package wire is the message between security servers: how it is written, read and refused.
//
// A message goes out through an Encoder and comes in through a Decoder; Original reads the SOAP, SwA or MTOM body of an
// information system, and a Message gives it back octet for octet. Faults have their form and their codes here only.
// (message-and-transport sections 2, 4, 5 and 10)
package wire
