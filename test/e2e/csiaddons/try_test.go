//go:build e2e

package csiaddons

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/test/e2e/tour"
)

// tryPage is the tour of docs/csi-addons/try.md.
func tryPage() tour.Page {
	return tour.Page{
		Path: "docs/csi-addons/try.md", Start: "Start a cluster",
		Printed: map[string]*regexp.Regexp{
			"STATE:.status.state":              regexp.MustCompile(`^POD +STATE\n(\S+ +Connected\n)+$`),
			"kubectl get reclaimspacejob data": regexp.MustCompile(`\ndata .* Succeeded .* Reclaimed`),
			"--operation=NodeReclaimSpace":     regexp.MustCompile(`\npre_usage.usage_bytes +\d`),
			"grep -A4 ClientDetails":           regexp.MustCompile(`- 10\.100\.0\.11/32\n`),
			"reason=FailedMount":               regexp.MustCompile("access denied by server"),
		},
	}
}

// TestTryPage follows docs/csi-addons/try.md word for word. Its cluster is that of `make run`, so
// the test stops the cluster of the other tests, and fails while somebody else runs this command.
func TestTryPage(t *testing.T) {
	if running != nil {
		running.Stop()
		running = nil
	}
	r := tour.Start(t, tryPage())
	var sizes []int
	for _, heading := range []string{"Reclaim space", "Fence the node"} {
		commands, outputs := r.Follow(heading)
		for i, command := range commands {
			if strings.Contains(command, "du -m ") {
				output := strings.TrimSpace(outputs[i])
				last := output[strings.LastIndex(output, "\n")+1:]
				size, err := strconv.Atoi(strings.Fields(last)[0])
				r.Must(err)
				sizes = append(sizes, size)
			}
		}
	}
	const written, tolerance = 200, slack / mebibyte
	if len(sizes) != 2 || sizes[0]-sizes[1] < written-tolerance ||
		sizes[0]-sizes[1] > written+tolerance {
		t.Errorf("the volume takes %v MiB before and after the job, and the page deletes %d MiB", sizes,
			written)
	}
}
