// Package flavour breaks nothing.
package flavour
