package operator

import (
	"cmp"
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	applyopv1 "github.com/openshift/client-go/operator/applyconfigurations/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// readyController returns the controller of the condition Ready, which summarizes the other
// conditions. It also runs while the operator does not reconcile.
func (d *driver) readyController(name string) (factory.Controller, error) {
	s := &summary{driver: d, manager: name}
	f := factory.New().WithInformers(d.operator.Informer()).WithSync(s.sync)
	if d.cluster.Flavour.ReportsCompletion() {
		f.WithInformers(&d.cluster.RolledOut)
		if w := d.components.Credentials; w != nil {
			f.WithInformers(w.Source(), w.Informer())
		}
	}
	return f.ToController(name, d.events), nil
}

// summary is the only writer of the fields of the status that say whether a tool should wait.
type summary struct {
	*driver
	manager string
	// restored is the generation that an earlier process has completed, nil before the first sync.
	restored *cluster.Generation
}

func (s *summary) sync(ctx context.Context, _ factory.SyncContext) error {
	now := s.cluster.Generation() // first, because what is read after it is not older
	completed := s.cluster.RolledOut.Lowest()
	spec, status, _, err := s.operator.GetOperatorState()
	if apierrors.IsNotFound(err) {
		return nil
	}
	found := &opv1.ClusterCSIDriver{}
	var stalled *diagnosis.Finding
	if err != nil { // the spec cannot be decoded, so other controllers report the same
		stalled = &diagnosis.Finding{Reason: "SyncError", Message: err.Error()}
	} else {
		found.Spec.OperatorSpec, found.Status.OperatorStatus = *spec, *status
	}
	findings := diagnosis.Driver(found, s.workloads)
	if !s.cluster.Flavour.ReportsCompletion() {
		c := diagnosis.Ready(findings)
		if stalled != nil {
			c.Status, c.Reason, c.Message = opv1.ConditionFalse, stalled.Reason, stalled.Message
		}
		return s.apply(ctx, applyopv1.OperatorStatus(), c)
	}
	if s.restored == nil && err == nil {
		s.restored = ptr.To(restored(now.UID, status))
	}
	observed := now.Number
	if err == nil && guest.Managed(spec) {
		if stalled = s.stalled(); stalled == nil && !s.isUnwanted(findings) {
			known := ptr.Deref(s.restored, cluster.Generation{})
			observed = cmp.Or(max(completed.Of(now.UID), known.Of(now.UID)), -1)
		}
	}
	return s.apply(ctx, applyopv1.OperatorStatus().WithObservedGeneration(observed),
		diagnosis.Summary(findings, stalled, observed == now.Number)...)
}

// restored returns the generation that an earlier process has completed. What is observed of a
// stalled driver, or of one that was not wanted, is not completed.
func restored(uid types.UID, status *opv1.OperatorStatus) cluster.Generation {
	if slices.ContainsFunc(status.Conditions, func(c opv1.OperatorCondition) bool {
		return c.Type == diagnosis.ConditionStalled || c.Type == diagnosis.ConditionReady &&
			c.Reason == diagnosis.ReasonDriverDisabled
	}) {
		return cluster.Generation{}
	}
	return cluster.Generation{UID: uid, Number: status.ObservedGeneration}
}

// stalled returns what a person has to correct, nil if there is nothing. It reads the sources of
// conditions, which may be newer: tools give up as soon as they see it.
func (s *summary) stalled() *diagnosis.Finding {
	if s.choices != nil {
		if c := s.choices.Condition(s.service(), nil); *c.Reason == "Invalid" {
			return &diagnosis.Finding{Type: *c.Type, Reason: *c.Reason, Message: *c.Message}
		}
	}
	if w := s.components.Credentials; w != nil {
		if err := w.Rejected(); err != nil {
			return &diagnosis.Finding{
				Type: s.service() + "CredentialsAccepted", Reason: string(openstack.ReasonOf(err)),
				Message: err.Error(),
			}
		}
	}
	return nil
}

// isUnwanted reports whether the driver did not start, and will not without a change elsewhere.
func (s *summary) isUnwanted(findings []diagnosis.Finding) bool {
	select {
	case <-s.needed:
		return false
	default:
	}
	config := s.choices.Config()
	return diagnosis.Ready(findings).Reason == diagnosis.ReasonDriverDisabled &&
		!slices.ContainsFunc(findings, func(f diagnosis.Finding) bool {
			return f.Reason == choice.ReasonNotWanted && config.Installs()
		})
}

// maxReason is the maximum length of the reason, which may be that of a condition that somebody in
// the guest cluster wrote.
const maxReason = 128

func (s *summary) apply(
	ctx context.Context, status *applyopv1.OperatorStatusApplyConfiguration,
	conditions ...opv1.OperatorCondition,
) error {
	for _, c := range conditions {
		status.WithConditions(cluster.NewCondition(c.Type, c.Status,
			guest.Printable(c.Reason, maxReason), c.Message))
	}
	return s.operator.ApplyOperatorStatus(ctx, s.manager, status)
}
