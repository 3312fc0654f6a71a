package kubectl

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// resourceFaults returns which resources of pods the operator refuses. The parser reports what is
// no resource.
func (d *document) resourceFaults() (faults []choice.Fault, failed error) {
	fields := d.fields
	trees, _ := position.Trees([]byte(d.text), maxFile)
	if trees = position.Objects(trees); fields == nil && len(trees) > 0 {
		fields = trees[0]
	}
	for _, part := range []string{"controller", "node"} {
		known, err := d.containers(part)
		failed = errors.Join(failed, err)
		at := position.Child(position.Child(position.Child(fields, "pods"), part), "resources")
		for i := 0; at != nil && at.Kind == yaml.MappingNode && i+1 < len(at.Content); i += 2 {
			key, r := at.Content[i], corev1.ResourceRequirements{}
			if one, err := position.Of(choice.Key, at.Content[i+1]); err == nil {
				_ = one.DecodeStrictly(&r)
			}
			add := func(format string, args ...any) {
				faults = append(faults, choice.Fault{Line: key.Line + d.before, Problem: fmt.Sprintf(
					"pods.%s.resources[%s]", part, key.Value) + fmt.Sprintf(format, args...)})
			}
			if !slices.Contains(known, key.Value) {
				add(": there is no such container: use %s", strings.Join(known, ", "))
			}
			for what, request := range r.Requests {
				if limit, found := r.Limits[what]; found && request.Cmp(limit) > 0 {
					add(".requests[%s]: %s is more than the limit, %s", what, &request, &limit)
				}
			}
		}
	}
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
			failed = errors.Join(failed, err, kyaml.Unmarshal(text, &workload))
			pod := workload.Spec.Template.Spec
			for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
				names = append(names, c.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), failed
}
