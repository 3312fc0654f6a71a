// Package plugins is not in a folder of its name.
package plugins
