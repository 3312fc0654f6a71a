// Package docs contains the pages that programs read.
package docs

import _ "embed" // for go:embed

// Requests is the page with the requests that operators and drivers send.
//
//go:embed openstack-requests.md
var Requests string
