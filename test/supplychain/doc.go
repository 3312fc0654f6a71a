// Package supplychain tests how the programs come from their sources: that builds are reproducible,
// what the SBOM of a program contains, and that known vulnerabilities are found. `make
// verify-supply-chain` runs it.
package supplychain
