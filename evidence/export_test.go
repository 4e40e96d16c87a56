// SPDX-License-Identifier: Apache-2.0

package evidence

// SyncData is how commits make a file durable.
var SyncData = syncData
