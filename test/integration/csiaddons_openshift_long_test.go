//go:build integration && long

package integration

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestCSIAddonsStartWithPermissionsOfOpenShift runs operators with the Roles and the variables of
// cluster-storage-operator, once for each set of permissions that a supported release grants. A
// ConfigMap configures CSI-Addons. The condition repeats the errors of the API server, until the
// command in its message grants what is missing. Until then the driver is available, not degraded.
func TestCSIAddonsStartWithPermissionsOfOpenShift(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		releases, err := s.DistinctReleases(false)
		assert.NilError(t, err)
		for _, release := range releases {
			t.Run(s.Program+"/"+release, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{
					Subject: s, Idle: true,
					Before: func(e *env) { e.useRolesOfOpenShift(release); e.installAddonsCRD() },
				})
				e.startsAddonsWithPermissions(release)
			})
		}
	}
}

func (e *env) startsAddonsWithPermissions(release string) {
	condition := ofSubject(e.subject, "Manila", "Cinder") + "CSIAddonsActive"
	degraded := ofSubject(e.subject, "OpenStackManila", "OpenStackCinder") +
		"DriverCSIAddonsControllerDegraded"
	granted := time.Now().Add(cleanUp)
	e.allowed = func(r request) bool {
		refused := []string{
			"networkpolicies", "clusterroles", "roles", "clusterrolebindings", "rolebindings",
		}
		return r.Time.Before(granted) && slices.Contains(refused, r.Resource)
	}
	texts := []string{
		"Resources:[\"subjectaccessreviews\"]", "Resources:[\"csiaddonsnodes\"]",
		"`oc apply -k assets/csi-addons/openshift`",
	}
	if e.subject.isManila() && release == "4.20" {
		texts = append(texts, "networkpolicies.networking.k8s.io")
	}
	e.startOperator()
	p := e.operator
	e.awaitAvailable()
	e.must(e.hasNoCondition(condition))

	e.configureAddons(false)
	e.eventually(installed, func() error {
		return errors.Join(e.hasCondition(condition, opv1.ConditionFalse, "Forbidden", texts...),
			e.hasCondition(degraded, opv1.ConditionFalse, "Forbidden", "forbidden"), e.notDegraded())
	})
	e.awaitAvailable()

	e.kubectl("apply", "-k", filepath.Join("..", "..", "assets", "csi-addons", "openshift"))
	e.eventually(time.Minute+installed, func() error {
		return e.hasCondition(condition, opv1.ConditionTrue, "AsExpected")
	})
	granted = time.Now()
	e.eventually(soon, func() error {
		return e.hasCondition(degraded, opv1.ConditionFalse, "AsExpected")
	})
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.nodesHaveAddonsPermissions(true) })
	e.eventually(soon, func() error { return e.controllersHaveAddons(true) })
	e.must(e.notDegraded())
	e.mustStillRun(p)
}
