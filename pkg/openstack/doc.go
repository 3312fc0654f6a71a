// Package openstack sends the operators' requests to an OpenStack cloud: it reads clouds.yaml, logs
// in, keeps the session while its token is accepted, and lists share types and availability zones.
// Its callers are the driver plugins, pkg/cloudprobe, pkg/credential, pkg/operator and pkg/plugin.
//
// Every error it returns is an *Error with a Reason. The message is the same text for the same
// failure: it contains no secrets and nothing that changes from one attempt to the next, such as
// local ports, request IDs and times.
package openstack
