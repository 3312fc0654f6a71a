package view

import (
	"fmt"
	"slices"
	"strings"
)

// Missing lists, in words, what keeps the driver from being ready: conditions,
// workloads, and a StorageClass for each of the share types. It is empty when all
// is ready.
func (s Snapshot) Missing(shareTypes []string) []string {
	return slices.Concat(s.missingConditions(), s.missingWorkloads(), s.missingClasses(shareTypes))
}

func (s Snapshot) missingConditions() []string {
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

func (s Snapshot) missingWorkloads() []string {
	var missing []string
	if len(s.Workloads) == 0 {
		missing = append(missing, "there are no workloads")
	}
	for _, w := range s.Workloads {
		if !w.RolledOut {
			missing = append(missing, w.String())
		}
	}
	return missing
}

func (s Snapshot) missingClasses(shareTypes []string) []string {
	var missing []string
	for _, name := range shareTypes {
		has := func(c Class) bool { return c.ShareType == name }
		if !slices.ContainsFunc(s.Classes, has) {
			missing = append(missing, fmt.Sprintf("no StorageClass for share type %q", name))
		}
	}
	return missing
}
