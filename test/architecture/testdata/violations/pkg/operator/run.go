// Package operator imports a driver in its test.
package operator
