// Package openstack talks to an OpenStack cloud on behalf of the drivers: it reads clouds.yaml, logs in, keeps the session
// while its token is good and answers the few questions the operators have. Its callers are the driver plugins.
//
// Every error it returns is an *Error: classified by a reason, with a message that is the same text for the same failure and
// holds neither secrets nor anything that changes from one attempt to the next (ports of sockets, request ids, times).
package openstack
