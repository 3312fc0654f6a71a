package view

import (
	"fmt"
	"slices"
	"strings"
)

// Missing lists, in words, what keeps the drivers from being ready: conditions,
// workloads, StorageClasses. Some drivers need one for each of the share types. It
// is empty when all is ready.
func (s Snapshot) Missing(shareTypes []string) []string {
	var missing []string
	for _, driver := range s {
		for _, text := range driver.missing(shareTypes) {
			missing = append(missing, s.label(driver)+text)
		}
	}
	return missing
}

// label starts what is said of a driver, if there are others.
func (s Snapshot) label(driver State) string {
	if len(s) < 2 {
		return ""
	}
	return driver.Driver.Title + ": "
}

func (s State) missing(shareTypes []string) []string {
	return slices.Concat(s.missingConditions(), s.missingWorkloads(), s.missingClasses(shareTypes))
}

func (s State) missingConditions() []string {
	var missing []string
	available := 0
	for _, c := range s.Conditions {
		switch {
		case strings.HasSuffix(c.Type, "Available") && c.Status == "True":
			available++
		case strings.HasSuffix(c.Type, "Available"), strings.HasSuffix(c.Type, "Disabled"),
			strings.HasSuffix(c.Type, "Degraded") && c.Status == "True":
			missing = append(missing, c.String())
		}
	}
	if available == 0 && len(missing) == 0 {
		missing = append(missing, "no condition says Available")
	}
	return missing
}

func (s State) missingWorkloads() []string {
	var missing []string
	in := func(side Side) bool {
		return slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Side == side })
	}
	switch {
	case len(s.Workloads) == 0:
		missing = append(missing, "there are no workloads")
	case s.Driver.isHosted() && !in(Management):
		missing = append(missing, "no Deployment "+s.Driver.Controller+" in the management cluster")
	case s.Driver.isHosted() && !in(Guest):
		missing = append(missing, "there are no workloads in the hosted cluster")
	}
	for _, w := range s.Workloads {
		if !w.RolledOut {
			missing = append(missing, w.String())
		}
	}
	return missing
}

func (s State) missingClasses(shareTypes []string) []string {
	var missing []string
	for _, name := range s.Driver.Classes {
		has := func(c Class) bool { return c.Name == name }
		if !slices.ContainsFunc(s.Classes, has) {
			missing = append(missing, "no StorageClass "+name)
		}
	}
	if !s.Driver.PerShareType {
		return missing
	}
	for _, name := range shareTypes {
		has := func(c Class) bool { return c.ShareType == name }
		if !slices.ContainsFunc(s.Classes, has) {
			missing = append(missing, fmt.Sprintf("no StorageClass for share type %q", name))
		}
	}
	return missing
}
