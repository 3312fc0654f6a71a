//go:build e2e

package promises

import (
	"regexp"
	"testing"

	"github.com/openstack-csi/csi-operator/test/e2e/tour"
)

// tutorial is the tour of docs/tutorial.md.
func tutorial() tour.Page {
	return tour.Page{
		Path: "docs/tutorial.md", Start: "Install",
		Printed: map[string]*regexp.Regexp{
			"openstack-csi status\n": regexp.MustCompile(`\nManila +True +ok .*\n`),
			"why pod/writer":         regexp.MustCompile(`pod/writer is Running`),
			"get storageclass\n":     regexp.MustCompile(`csi-manila-gold \(default\)`),
			"get pvc second":         regexp.MustCompile(`csi-manila-gold\n$`),
			"rotate .devcluster":     regexp.MustCompile(`The drivers run with these credentials`),
			"openstack-csi status ||": regexp.MustCompile(
				`(?s)^!! Manila.*HTTP 503.*#openstackcsicloudunreachable.*exit code 1\n$`),
			"^openstack_csi_cloud_reacha": regexp.MustCompile(`} 0\n`),
			"why pvc/third": regexp.MustCompile(
				`(?s)^pvc/third is Pending .*HTTP\s503.*exit code 1\n$`),
			"why deployment/openstack-cinder": regexp.MustCompile(
				`(?s)because\s.*secret/openstack-credentials`),
		},
	}
}

// TestTutorial follows docs/tutorial.md word for word. Its cluster is that of `make run`, so the
// test stops the cluster of the other tests, and fails while somebody else runs this command.
func TestTutorial(t *testing.T) {
	running.stop()
	r := tour.Start(t, tutorial())
	for _, heading := range []string{
		"The first claim", "A second share type", "The default class", "Rotate the credentials",
		"An outage", "Why does a claim wait?",
	} {
		r.Follow(heading)
	}
}
