// Package yaml stands for the library.
package yaml
