package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// Validate returns an error that names each invalid field of the driver. pkg/operator calls it
// before it uses the driver.
func (d Driver) Validate() error {
	var problems []error
	report := func(field, format string, args ...any) {
		problem := fmt.Sprintf(format, args...)
		problems = append(problems,
			fmt.Errorf("plugin.Driver %q: field %s %s", d.ConditionPrefix, field, problem))
	}
	if messages := validation.IsDNS1123Subdomain(string(d.Name)); messages != nil {
		report("Name", "%q is not a name of a ClusterCSIDriver: %s", d.Name, messages[0])
	}
	if !isWord(d.ConditionPrefix) {
		report("ConditionPrefix",
			"must be a word that starts with a capital letter, such as OpenStackCinder")
	}
	if d.Assets == nil {
		report("Assets", "is required: return the embedded folder of assets/drivers")
	}
	if d.Namespace != "" && validation.IsDNS1123Label(d.Namespace) != nil {
		report("Namespace", "%q is not a name of a namespace", d.Namespace)
	}
	return errors.Join(problems...)
}

// Validate returns an error that names each invalid component.
func (c Components) Validate() error {
	var problems []error
	report := func(field string, i int, problem string) {
		problems = append(problems, fmt.Errorf("plugin.Components: field %s[%d] %s", field, i, problem))
	}
	for i, h := range c.ControllerHooks {
		if h.Deployment == nil && h.DaemonSet != nil {
			report("ControllerHooks", i, "changes a DaemonSet but no Deployment")
		}
		checkInformers(h, func(problem string) { report("ControllerHooks", i, problem) })
	}
	for i, h := range c.NodeHooks {
		if h.DaemonSet == nil && h.Deployment != nil {
			report("NodeHooks", i, "changes a Deployment but no DaemonSet")
		}
		checkInformers(h, func(problem string) { report("NodeHooks", i, problem) })
	}
	for i, controller := range c.Controllers {
		if controller == nil {
			report("Controllers", i, "is nil")
		}
	}
	if c.Probe != nil && !isWord(c.Probe.Service) {
		problems = append(problems, fmt.Errorf("plugin.Components: the Service of field Probe must be a "+
			"word that starts with a capital letter, not %q", c.Probe.Service))
	}
	if c.Probe == nil && c.StartWhenAvailable {
		problems = append(problems,
			errors.New("plugin.Components: field StartWhenAvailable requires field Probe"))
	}
	return errors.Join(problems...)
}

func checkInformers(h hook.Workload, report func(problem string)) {
	if slices.Contains(h.Informers, nil) {
		report("contains an informer that is nil")
	}
}

// isWord reports whether a text can start the type of a condition.
func isWord(text string) bool {
	return regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`).MatchString(text)
}
