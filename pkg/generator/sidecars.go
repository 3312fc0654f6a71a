package generator

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/patch"
)

type sidecarContainer struct {
	part, name string
	traits     []string
}

// addSidecars adds the proxies for the metrics of the driver itself, then the sidecars. Sidecars
// serve metrics in the controller part only.
func (a *assembly) addSidecars(part string, p *driverPart) error {
	for i, metrics := range p.Metrics {
		if err := a.exposeMetrics(a.driver.source(part, "metrics").index(i), part, metrics); err != nil {
			return err
		}
	}
	next := metricsPort{Local: p.Ports.MetricsFrom, Exposed: p.Ports.ExposedFrom}
	for use, from := range a.sidecarsOf(part, p) {
		metrics := a.sidecars[use.Use].content.Metrics
		if metrics == nil || part == nodePart {
			if err := a.addSidecar(from, part, use, a.values); err != nil {
				return err
			}
			continue
		}
		if next.Local == 0 || next.Exposed == 0 {
			return from.errorf("sidecar %q serves metrics: ports needs metricsFrom and exposedFrom", use.Use)
		}
		next.Port, next.Proxy = metrics.Port, metrics.Proxy
		if a.has(use.Only) {
			if err := a.addSidecar(from, part, use, a.metricsValues(next)); err != nil {
				return err
			}
			if err := a.exposeMetrics(from, part, next); err != nil {
				return err
			}
		}
		// Each sidecar has the same numbers in all flavours.
		next.Local++
		next.Exposed++
	}
	return nil
}

// sidecarsOf yields the sidecars of a part with their positions, those for CSI-Addons last.
func (a *assembly) sidecarsOf(part string, p *driverPart) iter.Seq2[sidecarUse, source] {
	return func(yield func(sidecarUse, source) bool) {
		for i, use := range p.Sidecars {
			if !yield(use, a.driver.source(part, "sidecars").index(i)) {
				return
			}
		}
		for i, use := range p.CSIAddons.Sidecars {
			from := a.driver.source(part, "csiAddons", "sidecars").index(i)
			if !a.adds(p.CSIAddons) || !yield(use, from) {
				return
			}
		}
	}
}

// exposeMetrics puts a kube-rbac-proxy in front of a metrics port.
func (a *assembly) exposeMetrics(from source, part string, metrics metricsPort) error {
	a.usePort(part, metrics.Local, metrics.Port+" metrics", from.position())
	a.usePort(part, metrics.Exposed, metrics.Port+" exposed", from.position())
	return a.addSidecar(from, part, sidecarUse{Use: proxySidecar}, a.metricsValues(metrics))
}

func (a *assembly) metricsValues(metrics metricsPort) map[string]string {
	values := maps.Clone(a.values)
	values["metrics.port"] = metrics.Port
	values["metrics.proxy"] = metrics.Proxy
	values["metrics.local"] = strconv.Itoa(metrics.Local)
	values["metrics.exposed"] = strconv.Itoa(metrics.Exposed)
	return values
}

// addSidecar adds a sidecar's container to a workload, and the objects that the container needs.
func (a *assembly) addSidecar(
	from source, part string, use sidecarUse, values map[string]string,
) error {
	added, known := a.sidecars[use.Use]
	if !known {
		return from.errorf("unknown sidecar %q", use.Use)
	}
	if !a.has(use.Only) || !a.has(added.content.Only) {
		return nil
	}
	if added.content.part(part) == "" {
		return from.errorf("sidecar %q has no container for the %s part", use.Use, part)
	}
	if err := a.addContainer(from, part, added, use.Args, values); err != nil {
		return err
	}
	if err := a.completeSidecar(part, use.Use, added, values); err != nil {
		return err
	}
	without := a.driver.content.part(part).Without
	err := a.applyEach(added.source("each"), added.content.Each, values, without...)
	return errors.Join(err, a.addOptions(from, added, use, values))
}

func (a *assembly) addContainer(
	from source, part string, added manifest[sidecar], args []string, values map[string]string,
) error {
	layer, err := a.read(added.source(part), added.content.part(part), values)
	if err != nil {
		return err
	}
	var container map[string]any
	if err := layer.Decode(&container); err != nil {
		return err
	}
	name, _ := container["name"].(string)
	workload := a.workload(part)
	if _, err := containerPointer(workload, name); err == nil {
		return from.errorf("two containers with one name: %q is already in %q", name, workload.Name)
	}
	a.containers = append(a.containers, sidecarContainer{part, name, added.content.Traits})
	if len(args) > 0 {
		present, _ := container["args"].([]any)
		for _, arg := range args {
			present = append(present, arg)
		}
		container["args"] = present
	}
	return a.appendTo(workload, layer, "/spec/template/spec/containers/-", container)
}

// appendTo adds values to an asset at a pointer, which ends in "-" for a list.
func (l *layers) appendTo(target *asset, layer *document, pointer string, values ...any) error {
	if len(values) == 0 {
		return nil
	}
	added := make([]map[string]any, 0, len(values))
	for _, value := range values {
		added = append(added, map[string]any{"op": "add", "path": pointer, "value": value})
	}
	operations, err := yaml.Marshal(added)
	if err != nil {
		return layer.Errorf("", "%w", err)
	}
	extended, err := patch.JSON6902(target.Data, operations, "")
	if err != nil {
		return layer.Errorf("", "extending %q: %w", target.Name, err)
	}
	return l.change(target, layer, extended)
}

// completeSidecar adds the sidecar's volumes once per workload, and its assets once per driver:
// those for a part only if this part has the sidecar.
func (a *assembly) completeSidecar(
	part, name string, added manifest[sidecar], values map[string]string,
) error {
	var errs []error
	if inWorkload := part + "/" + name; !a.completed[inWorkload] {
		a.completed[inWorkload] = true
		errs = append(errs, a.addVolumes(part, added, values))
	}
	for i, asset := range added.content.Add {
		once := name + "/" + asset.File
		if a.completed[once] || asset.Part != "" && asset.Part != part {
			continue
		}
		a.completed[once] = true
		errs = append(errs, a.add(added.source("add").index(i), asset, values))
	}
	return errors.Join(errs...)
}

func (a *assembly) addVolumes(
	part string, added manifest[sidecar], values map[string]string,
) error {
	if added.content.Volumes == "" {
		return nil
	}
	layer, err := a.read(added.source("volumes"), added.content.Volumes, values)
	if err != nil {
		return err
	}
	var volumes []any
	if err := layer.Decode(&volumes); err != nil {
		return err
	}
	return a.appendTo(a.workload(part), layer, "/spec/template/spec/volumes/-", volumes...)
}

func (a *assembly) addOptions(
	from source, added manifest[sidecar], use sidecarUse, values map[string]string,
) error {
	var errs []error
	for _, option := range use.With {
		files, known := added.content.With[option]
		if !known {
			options := slices.Sorted(maps.Keys(added.content.With))
			errs = append(errs,
				from.errorf("sidecar %q has no option %q, only %q", use.Use, option, options))
		}
		for i, file := range files {
			errs = append(errs, a.add(added.source("with", option).index(i), file, values))
		}
	}
	return errors.Join(errs...)
}
