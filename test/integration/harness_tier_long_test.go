//go:build integration && long

package integration

// long is documented in harness_tier_test.go.
const long = true
