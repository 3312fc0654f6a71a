// Package rest stands for the library.
package rest
