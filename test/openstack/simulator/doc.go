// Package simulator is a small OpenStack cloud for tests and for local runs: one process, with
// state on disk if Config.State names a folder. Integration tests, tests of packages and the
// devcluster call it, in their own process.
//
// # What is simulated
//
//   - Identity (Keystone v3): POST of /v3/auth/tokens with the methods password and
//     application_credential (by id, or by name and user), project scope, expiry and revocation of
//     tokens; /v3/auth/catalog with regions, from which entries can be removed; and
//     /v3/users/ID/application_credentials/ID.
//   - Block storage (Cinder v3, 3.0 to 3.70, package blockstorage): volumes, empty or from a
//     snapshot, volume or backup; extension, of attached volumes since 3.42; metadata; snapshots;
//     backups; volume types; limits and quota sets; lists with filters and pages.
//   - Compute (Nova v2.1, 2.1 to 2.93, package compute): servers and volume attachments, and the
//     metadata service. A server can have a Machine, which makes devices of volumes.
//   - Shared file systems (Manila v2, 2.0 to 2.73, package sharedfilesystems): shares, empty or
//     from a snapshot; access rules; export locations; extension and shrinking; metadata;
//     snapshots; share types with extra specs; share networks; user messages; limits.
//   - The availability zones of Nova and Cinder. Shares are in the zones of Nova.
//   - Operations after the answer: a new volume is "creating" until its file exists, and so on for
//     every status of volumes, snapshots, backups, attachments, shares and access rules.
//     Config.OperationTime is how long they take at least.
//   - Errors with status and message of the services: 400, 403, 404, 406, 409, 413, 422.
//   - Every answer has an X-Openstack-Request-Id that is never the same twice. 5xx faults repeat it
//     in the body: tests detect a message that contains the body because the message changes.
//   - Failure: see Fault. Some faults affect requests, some the operations that requests start,
//     others (reset-connect, unreachable, bad-certificate) connections; these affect every service
//     behind the same listener. Config.SeparatePorts gives each service a listener of its own.
//
// # State on disk
//
// Records are JSON files in records/. A volume is a sparse file volumes/ID, a share is a folder
// shares/ID; snapshots and backups are copies of them. A record is replaced in one step, so that a
// cloud survives a kill at any moment: a simulator with the same folder has the same addresses,
// credentials, CA, volumes and shares, and continues operations that were not complete. Tokens and
// faults are lost, and servers are added again by the one who runs them.
//
// # What is not simulated
//
// There are no roles and no policy, one project, and the same resources in all regions. Zones and
// share types change only through the methods of Simulator. Lists have one order, the newest first.
// Nothing limits how much a share contains. Backups are never incremental, share networks have one
// subnet, and share groups, replicas, transfers, encryption and images do not exist. Access rules
// of the types user and cert are accepted but give access to nobody.
//
// # Sources
//
// Paths, fields and status codes come from the OpenStack API references "Identity API v3", "Shared
// File Systems API", "Compute API" and "Block Storage API V3" (docs.openstack.org/api-ref), and
// from what gophercloud v2 parses. Microversions, statuses and messages of errors are those of
// Cinder, Manila and Nova in the release Zed, the one in Debian 12. What the drivers call comes
// from the source of cinder-csi-plugin and manila-csi-plugin 1.36
// (k8s.io/cloud-provider-openstack).
package simulator
