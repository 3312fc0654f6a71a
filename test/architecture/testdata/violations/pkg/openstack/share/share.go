// Package share breaks nothing: it is in the room of its importer.
package share
