// Package cluster breaks nothing.
package cluster
