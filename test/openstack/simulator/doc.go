// Package simulator is a small OpenStack cloud for tests and for local runs: one process, loopback
// only, no state on disk. Its callers are the integration tests, the development cluster and the
// openstack-simulator command.
//
// # What is simulated
//
//   - Identity (Keystone v3): version documents; POST, GET, HEAD and DELETE of /v3/auth/tokens with
//     the methods password, application_credential (by id, or by name and user) and token; project
//     scope; token expiry and revocation; a catalog with regions from which entries can be removed.
//   - Shared file systems (Manila v2): version documents, the microversion header with its 400 and
//     406 answers, share types: list, show, default, extra specs. Names of fields follow the
//     requested microversion (os-share-type-access:is_public before 2.7,
//     share_type_access:is_public since; description since 2.41, is_default since 2.46).
//   - Compute (Nova v2.1) and block storage (Cinder v3): version documents and
//     /os-availability-zone.
//   - Every answer carries an X-Openstack-Request-Id that is never the same twice, and 5xx faults
//     repeat it in the body, so that a message built from an answer is caught if it is not stable.
//   - Failure: see Fault. Some faults are about requests, others (reset-connect, unreachable,
//     bad-certificate) about connections; the latter hit every service behind the same listener.
//     Config.SeparatePorts gives each service a listener of its own.
//
// # What is not simulated
//
// Roles and policy (there is one user with one role; what an administrator alone may do is
// refused), writes through the OpenStack APIs (share types change by the control API only), shares
// themselves, trusts, TOTP, OAuth and federation, domain and system scope, microversions of Nova
// and Cinder (their headers are accepted and ignored), paging, HTTP/2.
//
// # Control
//
// The control API listens on a port of its own, in plain HTTP, so that no fault ever affects it. It
// is not an interface to program against: use Client, which speaks it, also inside one process
// (Simulator.Client).
//
// # Sources
//
// Paths, fields and status codes come from the OpenStack API references "Identity API v3", "Shared
// File Systems API", "Compute API" and "Block Storage API V3" (docs.openstack.org/api-ref), from
// Manila's "REST API Version History", and from what gophercloud v2 parses.
package simulator
