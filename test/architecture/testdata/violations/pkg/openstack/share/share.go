// Package share violates nothing: it has the level of its importer.
package share
