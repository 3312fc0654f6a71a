// Package openstack violates nothing.
package openstack

import _ "example.org/module/pkg/openstack/share"
