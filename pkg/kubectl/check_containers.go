package kubectl

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// resourceFaults returns which resources of pods the operator refuses.
func (d *document) resourceFaults(config *choice.Config) (faults []choice.Fault, failed error) {
	fields := d.fields
	if trees, _ := position.Trees([]byte(d.text), maxFile); fields == nil && len(trees) > 0 {
		fields = trees[0]
	}
	for part, options := range map[string]choice.PodOptions{
		"controller": config.Pods.Controller.PodOptions, "node": config.Pods.Node,
	} {
		known, err := d.containers(part)
		failed = errors.Join(failed, err)
		at := position.Child(position.Child(position.Child(fields, "pods"), part), "resources")
		for name, r := range options.Resources {
			_, line, _ := below(at, name, "")
			add := func(format string, args ...any) {
				faults = append(faults, choice.Fault{Line: line + d.before, Problem: fmt.Sprintf(
					"pods.%s.resources[%s]", part, name) + fmt.Sprintf(format, args...)})
			}
			if !slices.Contains(known, name) {
				add(": there is no such container: use %s", strings.Join(known, ", "))
			}
			for what, request := range r.Requests {
				if limit, found := r.Limits[what]; found && request.Cmp(limit) > 0 {
					add(".requests[%s]: %s is more than the limit, %s", what, &request, &limit)
				}
			}
		}
	}
	slices.SortFunc(faults, func(a, b choice.Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Problem, b.Problem))
	})
	return faults, failed
}

// containers returns the names of the containers of a part, also of those of CSI-Addons.
func (d *document) containers(part string) (names []string, failed error) {
	of := strings.ToLower(strings.TrimSuffix(string(d.kind), "Config"))
	if d.isShared {
		of = "*"
	}
	for _, folder := range []string{"", "csi-addons/"} {
		files, err := fs.Glob(assets.Workloads(),
			"drivers/"+of+"/generated/standalone/"+folder+part+".yaml")
		failed = errors.Join(failed, err)
		for _, file := range files {
			text, err := fs.ReadFile(assets.Workloads(), file)
			var workload appsv1.Deployment // a DaemonSet has the same template
			failed = errors.Join(failed, err, yaml.Unmarshal(text, &workload))
			pod := workload.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), failed
}
