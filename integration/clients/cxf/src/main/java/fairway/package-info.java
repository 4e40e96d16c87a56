// SPDX-License-Identifier: Apache-2.0
@jakarta.xml.bind.annotation.XmlSchema(namespace = Echo.NS,
        elementFormDefault = jakarta.xml.bind.annotation.XmlNsForm.QUALIFIED)
package fairway;
