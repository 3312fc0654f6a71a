// Package cluster violates nothing.
package cluster
