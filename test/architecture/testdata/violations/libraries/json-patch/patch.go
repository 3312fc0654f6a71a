// Package jsonpatch stands for the library.
package jsonpatch
