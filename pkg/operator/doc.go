// Package operator runs the controllers that install and maintain a driver and its companion
// drivers. The commands in cmd/ call it with the driver plugins; controllers.go lists all
// controllers.
package operator
