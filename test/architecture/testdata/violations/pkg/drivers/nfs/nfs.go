// Package nfs breaks nothing.
package nfs
