// Package manila breaks nothing.
package manila
