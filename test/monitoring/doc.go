// Package monitoring tests the alerts in assets/monitoring with the programs of Prometheus. `make
// test-monitoring` runs the tests; they need Debian's package prometheus.
//
// promtool runs the tests in testdata. Each file contains those of one alert: series, and what they
// cause at some times. Prometheus itself scrapes the operators of a devcluster and a real
// csi-provisioner, so that an alert about a metric or a label that does not exist fails the test.
package monitoring
