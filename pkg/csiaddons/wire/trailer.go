package wire

// ChangedSharesTrailer is the key of the gRPC trailer of FenceClusterNetwork that contains the
// number of shares to which access was revoked, as decimal digits. The adapter for Manila sets it,
// and the sidecar passes it on. The specification has no field for it.
const ChangedSharesTrailer = "openstack-changed-shares"
