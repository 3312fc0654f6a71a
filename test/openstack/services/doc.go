// Package services runs the real API services of OpenStack on this machine: Keystone, Manila,
// Cinder and Nova from Debian packages, on SQLite databases. `make test-openstack` runs the tests
// of the operators against them, and compares the simulator with them.
//
// Only the API processes run. They answer requests that read as a cloud does. They accept or reject
// requests for changes, but no process carries out the changes: a new volume stays in the status
// "creating". The hosts behind availability zones are rows in the databases.
//
// Start starts the services. Main runs a command while the services run. Each test has its own
// Cloud: a project, a user and a catalog, behind the listeners of the simulator.
package services
