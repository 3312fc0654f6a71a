//go:build integration && !long

package integration

// long reports whether the tag long selects the tests of `make test-all`. Without it, a test that
// repeats its checks for several operators, flavours or releases makes them for one of them.
const long = false
