// Package monitoring tests the alerts in assets/monitoring with the programs of Prometheus. `make
// test-monitoring` runs the tests; they need Debian's package prometheus.
//
// promtool runs the files in testdata, one for each alert, which contain series and the alerts that
// they cause. Prometheus itself scrapes the operators of a devcluster and a real csi-provisioner,
// so that an alert about a metric or a label that does not exist fails the test.
package monitoring
