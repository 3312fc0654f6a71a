package controlplane

import (
	"context"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// clusterCSIDrivers is the CRD that lists the names of its objects.
const clusterCSIDrivers = "clustercsidrivers.operator.openshift.io"

func (c *ControlPlane) installCRDs(context.Context) error {
	options := envtest.CRDInstallOptions{
		Paths:              c.opts.CRDs,
		ErrorIfPathMissing: true,
		MaxTime:            startTimeout,
	}
	if err := envtest.ReadCRDFiles(&options); err != nil {
		return fmt.Errorf("reading CRDs: %w", err)
	}
	options.Paths = nil // read already
	if err := admit(&options, c.opts.DriverNames); err != nil {
		return err
	}
	if _, err := envtest.InstallCRDs(c.Config(), options); err != nil {
		return fmt.Errorf("installing CRDs: %w", err)
	}
	return nil
}

// admit adds names to the list of the CRD of ClusterCSIDrivers. OpenShift's list contains a new
// driver only after a change of openshift/api, but its operator must run before that.
func admit(options *envtest.CRDInstallOptions, names []string) error {
	for _, crd := range options.CRDs {
		if crd.Name != clusterCSIDrivers {
			continue
		}
		for _, version := range crd.Spec.Versions {
			metadata := version.Schema.OpenAPIV3Schema.Properties["metadata"]
			schema := metadata.Properties["name"]
			if len(schema.Enum) == 0 {
				return fmt.Errorf("CRD %s lists no names in version %s", crd.Name, version.Name)
			}
			admitted := map[string]bool{}
			for _, one := range schema.Enum {
				admitted[string(one.Raw)] = true
			}
			for _, name := range names {
				if quoted := strconv.Quote(name); !admitted[quoted] {
					admitted[quoted] = true
					added := schema.Enum[0] // a copy, because its type is not in a direct dependency
					added.Raw = []byte(quoted)
					schema.Enum = append(schema.Enum, added)
				}
			}
			metadata.Properties["name"] = schema
		}
	}
	return nil
}
