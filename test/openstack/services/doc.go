// Package services runs the real API services of OpenStack on this machine: Keystone, Manila,
// Cinder and Nova from Debian packages, on SQLite databases. `make test-openstack` runs the tests
// of the operators against them, and compares the simulator with them.
//
// Only the API processes run. They answer reads as in a cloud, and accept or reject requests for
// changes, but nothing carries the changes out: a volume stays in the state "creating". The hosts
// behind availability zones are rows in the databases.
//
// Start starts the services; Main is a command that runs another command while they run. A Cloud is
// what one test gets: a project, a user and a catalog of its own, behind the listeners of the
// simulator.
package services
