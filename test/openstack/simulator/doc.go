// Package simulator is a small OpenStack cloud for tests and for local runs: one process, loopback
// only, no state on disk. Integration tests, tests of packages and the devcluster call it, in their
// own process.
//
// # What is simulated
//
//   - Identity (Keystone v3): POST of /v3/auth/tokens with the methods password and
//     application_credential (by id, or by name and user), project scope, expiry and revocation of
//     tokens; /v3/auth/catalog with regions, from which entries can be removed; and
//     /v3/users/ID/application_credentials/ID.
//   - Shared file systems (Manila v2): the list of share types. Compute (Nova v2.1) and block
//     storage (Cinder v3): the list of availability zones.
//   - Every answer has an X-Openstack-Request-Id that is never the same twice. 5xx faults repeat it
//     in the body: tests detect a message that contains the body because the message changes.
//   - Failure: see Fault. Some faults affect requests, others (reset-connect, unreachable,
//     bad-certificate) connections; the latter affect every service behind the same listener.
//     Config.SeparatePorts gives each service a listener of its own.
//
// Nothing else is simulated: no version documents and no microversions (their headers are ignored),
// no roles and policy, no paging, and no writes through the OpenStack APIs. Tests change the cloud
// through the methods of Simulator.
//
// # Sources
//
// Paths, fields and status codes come from the OpenStack API references "Identity API v3", "Shared
// File Systems API", "Compute API" and "Block Storage API V3" (docs.openstack.org/api-ref), and
// from what gophercloud v2 parses.
package simulator
