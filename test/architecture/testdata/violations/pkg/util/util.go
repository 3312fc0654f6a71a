// Package util has no level, and a name that says nothing.
package util
