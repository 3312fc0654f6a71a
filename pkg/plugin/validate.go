package plugin

import (
	"errors"
	"fmt"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// Validate reports the fields of a driver that the core cannot work with, each by its name. The core calls it before it uses
// the driver.
func (d Driver) Validate() error {
	var faults []error
	fault := func(field, format string, args ...any) {
		faults = append(faults, fmt.Errorf("plugin.Driver %q: field %s %w", d.ConditionPrefix, field, fmt.Errorf(format, args...)))
	}
	if messages := validation.IsDNS1123Subdomain(string(d.Name)); messages != nil {
		fault("Name", "%q is no name of a ClusterCSIDriver: %s", d.Name, messages[0])
	}
	if !isWord(d.ConditionPrefix) {
		fault("ConditionPrefix", "must be a word that starts with a capital letter, such as OpenStackCinder")
	}
	if d.Assets == nil {
		fault("Assets", "is required: return the embedded folder of assets/drivers")
	}
	if d.Namespace != "" && validation.IsDNS1123Label(d.Namespace) != nil {
		fault("Namespace", "%q is no name of a namespace", d.Namespace)
	}
	for i, condition := range d.StaleConditions {
		if !isWord(condition) || slices.Contains(d.StaleConditions[:i], condition) {
			fault(fmt.Sprintf("StaleConditions[%d]", i), "%q is no condition type, or is there twice", condition)
		}
	}
	return errors.Join(faults...)
}

// Validate reports the components that the core cannot work with, each by its name.
func (w Components) Validate() error {
	var faults []error
	fault := func(field string, i int, problem string) {
		faults = append(faults, fmt.Errorf("plugin.Components: field %s[%d] %s", field, i, problem))
	}
	for i, h := range w.ControllerHooks {
		if h.Deployment == nil && h.DaemonSet != nil {
			fault("ControllerHooks", i, "changes a DaemonSet and no Deployment")
		}
		checkInformers(h, func(problem string) { fault("ControllerHooks", i, problem) })
	}
	for i, h := range w.NodeHooks {
		if h.DaemonSet == nil && h.Deployment != nil {
			fault("NodeHooks", i, "changes a Deployment and no DaemonSet")
		}
		checkInformers(h, func(problem string) { fault("NodeHooks", i, problem) })
	}
	for i, h := range w.CSIDriverHooks {
		if h == nil {
			fault("CSIDriverHooks", i, "is nil")
		}
	}
	for i, c := range w.Controllers {
		if c == nil {
			fault("Controllers", i, "is nil")
		}
	}
	if w.Probe != nil && !isWord(w.Probe.Service) {
		faults = append(faults, fmt.Errorf("plugin.Components: the Service of field Probe must be a word that starts with a capital letter, not %q", w.Probe.Service))
	}
	if w.Probe == nil && w.StartWhenAvailable {
		faults = append(faults, errors.New("plugin.Components: field StartWhenAvailable requires field Probe"))
	}
	return errors.Join(faults...)
}

func checkInformers(h hook.Workload, fault func(problem string)) {
	if slices.Contains(h.Informers, nil) {
		fault("has an informer that is nil")
	}
}

// isWord tells whether a text can start the type of a condition.
func isWord(text string) bool {
	return regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`).MatchString(text)
}
