// Package util has no room and an empty name.
package util
