// Package simulator is a small OpenStack cloud for tests and for local runs, in the process that
// calls it. It has the requests that the operators, CSI-Addons and the drivers send, and no others.
// Integration tests, tests of packages and the devcluster call it.
//
// # What is simulated
//
//   - Identity (Keystone v3): POST of /v3/auth/tokens with the methods password and
//     application_credential (by id, or by name and user), project scope, expiry and revocation of
//     tokens; /v3/auth/catalog with regions, from which entries can be removed; and
//     /v3/users/ID/application_credentials/ID.
//   - Block storage (Cinder v3, 3.0 to 3.70, package blockstorage): volumes, empty or from a
//     snapshot or volume; extension, of attached volumes since 3.42; snapshots; lists with filters
//     and pages. No snapshot is a backup.
//   - Compute (Nova v2.1, 2.1 to 2.93, package compute): servers and volume attachments, and the
//     metadata service. A server can have a Machine, which makes devices of volumes.
//   - Shared file systems (Manila v2, 2.0 to 2.73, package sharedfilesystems): shares, empty or
//     from a snapshot; access rules; export locations; extension; metadata; snapshots; share types;
//     the recycle bin. Package sharestate refuses access rules as Manila does.
//   - The availability zones of Nova, Cinder and Manila.
//   - The quotas of Cinder, also for a volume type, and those of Manila, also for a share type and
//     for the user: limits, use, what is reserved, -1 and 0. See Config.VolumeQuotas. Only limits
//     that are set exist, so that tests may create what they want.
//   - Statuses that an administrator or a failed operation sets, such as error_deleting, and the
//     messages of Cinder and Manila that say why. See Simulator.SetStatus.
//   - Operations that continue after the answer, for every status of volumes, snapshots,
//     attachments, shares and access rules: a new volume is "creating" until its file exists.
//     Config.OperationTime is the minimum time of an operation.
//   - Errors with status and message of the services: 400, 403, 404, 406, 413, 422.
//   - Every answer has a different X-Openstack-Request-Id. 5xx faults repeat it in the body. So
//     tests detect a message that contains the body, because the message changes.
//   - Failures: see Fault. Some faults affect requests, and some affect the operations that
//     requests start. Others (reset-connect, unreachable, bad-certificate) affect connections, and
//     so every service behind the same listener. Config.SeparatePorts gives each service its own
//     listener.
//
// # Data
//
// Records are in memory. If Config.State names a folder, a volume is a sparse file volumes/ID in
// it, and a share is a folder shares/ID; snapshots are copies of them.
//
// # What is not simulated
//
// There are no roles and no policy. There is one project, and all regions have the same resources.
// Zones and types change only through the methods of Simulator. Lists are always sorted, the newest
// first. Nothing limits the amount of data in a share. The quota of a user of Manila counts all
// shares, because all belong to one user. Volume types differ only in their names, and no volume
// can be attached to two servers. Backups, share networks, share groups, replicas, transfers,
// encryption and images do not exist. The simulator accepts access rules of the types user and
// cert, but they permit no access.
//
// # Sources
//
// Paths, fields and status codes come from the OpenStack API references "Identity API v3", "Shared
// File Systems API", "Compute API" and "Block Storage API V3" (docs.openstack.org/api-ref), and
// from what gophercloud v2 parses. Microversions, statuses and messages of errors are those of
// Cinder, Manila and Nova in the release Zed, the one in Debian 12. The source of cinder-csi-plugin
// and manila-csi-plugin 1.36 (k8s.io/cloud-provider-openstack) shows which requests drivers send.
package simulator
