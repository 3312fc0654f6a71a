// Package operator breaks a rule in its test.
package operator
