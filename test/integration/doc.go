// Package integration tests the operators against real Kubernetes API servers (test/devcluster)
// and an OpenStack that fails on request (test/openstack/simulator). `make test-integration` and
// CI run it.
//
// The variable BIN_DIR is the folder of the programs, K8S_BIN_DIR the cache of Kubernetes binaries.
//
// Every test starts with newEnv. It returns a cluster in the state in which
// cluster-storage-operator leaves it, an OpenStack of its own and a running operator: Manila's,
// standalone, unless the options say otherwise. When the test ends, newEnv's cleanup fails the test
// if the operator crashed, if RBAC refused one of its requests, or if a password, token or key is
// in its log, its metrics, an audit log or any object but a Secret. Operators of hosted control
// planes run with the highest log level.
//
// Tests run in parallel. newEnv waits until a cluster of the flavour is free, resets it, and
// returns it to the pool when the test ends, so no two tests share a cluster. The flags -standalone
// and -hypershift set the number of clusters; each starts when a test first needs it. A test calls
// newEnv once: a subtest that needs its own environment runs in parallel, too. With -v each test
// logs which cluster it used, how long it waited for it, and how long it used it.
package integration
