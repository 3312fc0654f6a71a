// Package simulator violates nothing.
package simulator
