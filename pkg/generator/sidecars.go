package generator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// addSidecars adds the ports which the driver itself serves metrics on, then its sidecars, each with its own.
func (a *assembly) addSidecars(part string, p *driverPart) error {
	a.listenAt(part, p)
	for i, one := range p.Metrics {
		if err := a.exposeMetrics(part, one, a.driver.at(part, "metrics", i)); err != nil {
			return err
		}
	}
	next := metricsPort{Local: p.Ports.MetricsFrom, Exposed: p.Ports.ExposedFrom}
	for i, use := range p.Sidecars {
		at := a.driver.at(part, "sidecars", i)
		declared, known := a.sidecars[use.Use]
		if !known {
			return faultf(at, "unknown sidecar %q", use.Use)
		}
		metrics := declared.content.Metrics
		if metrics == nil {
			if err := a.useSidecar(part, use, at, a.values); err != nil {
				return err
			}
			continue
		}
		if next.Local == 0 || next.Exposed == 0 {
			return faultf(at, "sidecar %q serves metrics: ports needs metricsFrom and exposedFrom", use.Use)
		}
		next.Port, next.Proxy = metrics.Port, metrics.Proxy
		if err := a.useWithMetrics(part, use, at, next); err != nil {
			return err
		}
		// The numbers of a flavour do not depend on what the other one leaves out.
		next.Local++
		next.Exposed++
	}
	return nil
}

// useWithMetrics adds a sidecar and the proxy for its metrics.
func (a *assembly) useWithMetrics(part string, use sidecarUse, at Position, metrics metricsPort) error {
	if !a.wanted(use.Only) {
		return nil
	}
	if err := a.useSidecar(part, use, at, a.metricsValues(metrics)); err != nil {
		return err
	}
	return a.exposeMetrics(part, metrics, at)
}

// exposeMetrics puts a kube-rbac-proxy in front of a metrics port.
func (a *assembly) exposeMetrics(part string, metrics metricsPort, at Position) error {
	a.listen(part, metrics.Local, metrics.Port+" metrics", at)
	a.listen(part, metrics.Exposed, metrics.Port+" exposed", at)
	return a.useSidecar(part, sidecarUse{Use: proxySidecar}, at, a.metricsValues(metrics))
}

func (a *assembly) metricsValues(metrics metricsPort) map[string]string {
	values := maps.Clone(a.values)
	values["metrics.port"] = metrics.Port
	values["metrics.proxy"] = metrics.Proxy
	values["metrics.local"] = strconv.Itoa(metrics.Local)
	values["metrics.exposed"] = strconv.Itoa(metrics.Exposed)
	return values
}

// useSidecar adds a sidecar's container to a workload, and what belongs to the container.
func (a *assembly) useSidecar(part string, use sidecarUse, at Position, values map[string]string) error {
	if !a.wanted(use.Only) {
		return nil
	}
	one, known := a.sidecars[use.Use]
	if !known {
		return faultf(at, "unknown sidecar %q", use.Use)
	}
	if one.content.container(part) == "" {
		return faultf(at, "sidecar %q has no container for the %s part", use.Use, part)
	}
	if err := a.place(part, one, use.Args, at, values); err != nil {
		return err
	}
	if err := a.completeSidecar(part, use.Use, one, values); err != nil {
		return err
	}
	for i, entry := range one.content.Each {
		if a.declines(part, entry.Target) {
			continue
		}
		if err := a.patch(one.manifest, entry, one.at("each", i), values); err != nil {
			return err
		}
	}
	return a.addOptions(one, use, at, values)
}

// place appends the sidecar's container to the workload.
func (a *assembly) place(
	part string, one declared[sidecar], args []string, at Position, values map[string]string,
) error {
	file := one.beside(one.content.container(part))
	text, err := a.read(file, values)
	if err != nil {
		return err
	}
	var container map[string]any
	if err := yaml.Unmarshal(text, &container); err != nil {
		return faultIn(file, err)
	}
	name, _ := container["name"].(string)
	if name == "" {
		return faultf(Position{File: file, Line: 1}, "the container has no name")
	}
	workload := a.workload(part)
	if _, err := containerPointer(workload, name); err == nil {
		return faultf(at, "two containers of one name: %q is in %q already", name, workload.Name)
	}
	if err := appendArgs(container, args); err != nil {
		return faultf(at, "sidecar container %q: %w", name, err)
	}
	a.placed = append(a.placed, placement{part: part, container: name, traits: one.content.Traits})
	return a.extend(workload, file, text, "/spec/template/spec/containers/-", container)
}

func appendArgs(container map[string]any, args []string) error {
	present, isList := container["args"].([]any)
	if !isList && container["args"] != nil {
		return fmt.Errorf("args is no list")
	}
	for _, arg := range args {
		present = append(present, arg)
	}
	if len(present) > 0 {
		container["args"] = present
	}
	return nil
}

// extend adds a value to a list of the workload.
func (a *assembly) extend(workload *asset, file string, text []byte, pointer string, value any) error {
	operations, err := yaml.Marshal([]map[string]any{{"op": "add", "path": pointer, "value": value}})
	if err != nil {
		return faultIn(file, err)
	}
	extended, err := patch.JSON6902(workload.Data, operations, "")
	if err != nil {
		return faultIn(file, fmt.Errorf("extending %q: %w", workload.Name, err))
	}
	return a.change(workload, origin{file: file, text: text}, extended)
}

// completeSidecar adds what a sidecar needs once however often it is used: its volumes in each workload, and its assets.
func (a *assembly) completeSidecar(part, name string, one declared[sidecar], values map[string]string) error {
	var faults []error
	if inWorkload := part + "/" + name; !a.complete[inWorkload] {
		a.complete[inWorkload] = true
		faults = append(faults, a.addVolumes(part, one, values))
	}
	if !a.complete[name] {
		a.complete[name] = true
		for i, added := range one.content.Add {
			faults = append(faults, a.add(one.manifest, added, one.at("add", i), values))
		}
	}
	return errors.Join(faults...)
}

func (a *assembly) addVolumes(part string, one declared[sidecar], values map[string]string) error {
	if one.content.Volumes == "" {
		return nil
	}
	file := one.beside(one.content.Volumes)
	text, err := a.read(file, values)
	if err != nil {
		return err
	}
	var volumes []any
	if err := yaml.Unmarshal(text, &volumes); err != nil {
		return faultIn(file, err)
	}
	for _, volume := range volumes {
		if err := a.extend(a.workload(part), file, text, "/spec/template/spec/volumes/-", volume); err != nil {
			return err
		}
	}
	return nil
}

// addOptions adds the assets of the options which the driver asks the sidecar for.
func (a *assembly) addOptions(one declared[sidecar], use sidecarUse, at Position, values map[string]string) error {
	var faults []error
	for _, option := range use.With {
		added, known := one.content.With[option]
		if !known {
			options := slices.Sorted(maps.Keys(one.content.With))
			faults = append(faults, faultf(at, "sidecar %q has no option %q, only %q", use.Use, option, options))
		}
		for i, file := range added {
			faults = append(faults, a.add(one.manifest, file, one.at("with", option, i), values))
		}
	}
	return errors.Join(faults...)
}
