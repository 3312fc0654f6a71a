// Package util has no level and an empty name.
package util
