// Package operands tests that a stand-in accepts the arguments of the operands. Its callers are the
// tests of the stand-ins.
package operands

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/node/standin"
)

// CheckFlags fails the test if a generated workload runs the image of the variable with a flag that
// the program does not have, or if no workload runs the image. It is for tests in a folder beside
// this one.
func CheckFlags(t *testing.T, variable string, program standin.Program) {
	t.Helper()
	found := 0
	for _, container := range containers(t) {
		if container.Image != "${"+variable+"}" {
			continue
		}
		found++
		flags := flag.NewFlagSet(container.Name, flag.ContinueOnError)
		klog.InitFlags(flags)
		program.AddFlags(flags)
		args := strings.ReplaceAll(strings.Join(container.Args, "\n"), "${LOG_LEVEL}", "2")
		if err := flags.Parse(strings.Split(args, "\n")); err != nil {
			t.Errorf("container %s: %v", container.Name, err)
		}
		if flags.NArg() > 0 {
			t.Errorf("container %s: unexpected argument %q", container.Name, flags.Arg(0))
		}
	}
	if found == 0 {
		t.Errorf("no workload uses the image %s", variable)
	}
}

// containers returns the containers of all generated workloads.
func containers(t *testing.T) []corev1.Container {
	t.Helper()
	const generated = "../../../../assets/drivers/*/generated/*/"
	var all []corev1.Container
	for _, pattern := range []string{"controller.yaml", "node.yaml"} {
		files, err := filepath.Glob(generated + pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("found workloads %q: %v", files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var workload appsv1.Deployment // a DaemonSet has the same fields
			if err := yaml.Unmarshal(content, &workload); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			pod := workload.Spec.Template.Spec
			all = append(append(all, pod.InitContainers...), pod.Containers...)
		}
	}
	return all
}
