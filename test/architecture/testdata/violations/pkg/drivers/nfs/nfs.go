// Package nfs violates nothing.
package nfs
