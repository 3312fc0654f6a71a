package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openstack-csi/csi-operator/docs"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/pkg/version"
)

// rights returns what the roles and the access rules of the login do not let the drivers do, and
// whether it ends soon.
func (c *cloud) rights(ctx context.Context) (links []Link) {
	rights, err := c.client.Rights(ctx)
	if err != nil {
		links = only(NotVisible, "the access rules of the login: %v", err)
	}
	links = append(links, c.expiry(ctx)...)
	canWrite := slices.ContainsFunc(rights.Roles, func(role string) bool {
		return slices.Contains([]string{"admin", "manager", "member", "_member_"}, strings.ToLower(role))
	})
	if !canWrite && len(rights.Roles) > 0 {
		links = append(links, linkf(Warning, "the roles of the login in its project are %s. Unless the "+
			"cloud has policies of its own, only the role member may create volumes",
			diagnosis.List(rights.Roles)).then("Ask the cloud's administrator for the role member. An "+
			"application credential keeps its roles: create another one then"))
	}
	needed, err := accessrule.Parse(docs.Requests, "Requests that need a rule")
	if err != nil {
		return append(links, linkf(NotVisible, "the access rules of the login: %v", err))
	}
	for _, d := range drivers() {
		links = append(links, d.refused(rights, needed)...)
	}
	return links
}

// expiry says when the application credential of the login ends, if that is soon.
func (c *cloud) expiry(ctx context.Context) []Link {
	at, err := c.client.CredentialExpiry(ctx)
	if err != nil || at.IsZero() || time.Until(at) > credential.WarnBefore {
		return nil
	}
	l := linkf(Warning, "the application credential of the login expires at %s",
		at.UTC().Format(time.RFC3339))
	return []Link{l.then("Create another one. Where a cluster has this one, run: " +
		"kubectl openstack-csi rotate clouds.yaml")}
}

// refused says which requests of a driver the access rules of the login do not permit. It ignores
// optional requests, which the plugin sends as well.
func (d driver) refused(rights openstack.Rights, needed accessrule.Rules) []Link {
	services := []string{"sharev2"}
	if d.kind == choice.Cinder {
		services = []string{"volumev3", "compute"}
	}
	needed = slices.DeleteFunc(slices.Clone(needed), func(r accessrule.Rule) bool {
		return !slices.Contains(services, r.Service) || slices.Contains(r.Senders, "kubectl plugin")
	})
	refused := rights.Rules.Refused(needed, rights.Project)
	switch {
	case len(rights.Rules) == 0 || len(refused) == 0:
		return nil
	case len(refused) == len(needed):
		return only(OK, "the access rules of the login permit no request of %s", d.title)
	}
	var operations []string
	for _, r := range refused {
		operations = append(operations, fmt.Sprintf("%s %s %s (%s)", r.Service, r.Method, r.Path,
			r.Purpose))
	}
	l := linkf(Warning, "the access rules of the login do not permit all requests that %s needs. "+
		"OpenStack will refuse these (%d)", d.title, len(refused)).
		then("Create another application credential: %s", version.Page("docs/openstack-requests.md"))
	l.Detail = strings.Join(operations, "\n")
	return []Link{l}
}
