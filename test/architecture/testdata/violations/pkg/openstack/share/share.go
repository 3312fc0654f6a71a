// Package share breaks nothing: it has the level of its importer.
package share
