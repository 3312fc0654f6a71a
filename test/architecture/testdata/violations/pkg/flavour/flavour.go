// Package flavour violates nothing.
package flavour
