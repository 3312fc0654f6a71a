package cloudprobe

import (
	"context"
	"fmt"
	"regexp"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// errorPolls is the number of polls in which each status is asked for once: an hour by default.
	errorPolls = 60
	// maxClaims is the number of claims that get an event after a request.
	maxClaims     = 20
	volumeInError = "VolumeInError"
)

// provisioned matches the names that csi-provisioner gives to volumes and PersistentVolumes.
var provisioned = regexp.MustCompile(`^pvc-[0-9a-f-]{36}$`)

// checkVolumes asks which volumes have one of the error statuses: after the start for one status in
// each poll, and then at equal intervals. Nothing depends on the answer. An outage keeps the
// metric, a refusal removes it.
func (p *Probe) checkVolumes(ctx context.Context) {
	due := p.InError != nil && (p.errorRequests < len(p.Errors) || p.Clock.Since(p.errorsAsked) >=
		errorPolls*p.Interval/time.Duration(len(p.Errors)))
	client := p.optionalClient(ctx, due)
	if client == nil {
		return
	}
	status := p.Errors[p.errorRequests%len(p.Errors)]
	p.errorRequests++
	p.errorsAsked = p.Clock.Now()
	found, err := p.InError(client, ctx, status)
	if err == nil {
		err = p.reportErrors(ctx, status, found)
	} else if openstack.ReasonOf(err) != openstack.CloudUnreachable {
		p.Metrics.inError.Reset()
	}
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Volumes in error are not known", "reason", err.Error())
	}
}

// reportErrors counts the volumes of this cluster, and sends events about those that were not in
// the status at the last request: on their claims, and one about all others. If a release of
// OpenShift does not permit to read PersistentVolumes, all are others, and there is no metric.
func (p *Probe) reportErrors(ctx context.Context, status string, found []openstack.Volume) error {
	readable, err := p.Guest.May(ctx, authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "persistentvolumes",
	})
	if err != nil {
		return err
	}
	ids, news := sets.New[string](), []*corev1.PersistentVolume{}
	for _, v := range found {
		pv, err := p.persistentVolume(ctx, v, readable)
		switch {
		case err != nil:
			return err
		case pv == nil:
			continue
		case !p.inError[status].Has(v.ID):
			news = append(news, pv)
		}
		ids.Insert(v.ID)
	}
	p.inError[status] = ids
	if readable {
		p.Metrics.inError.WithLabelValues(p.Driver, status).Set(float64(ids.Len()))
	}
	claims := 0
	for _, pv := range news {
		if claims < maxClaims && p.tell(ctx, pv, status) {
			claims++
		}
	}
	if others := len(news) - claims; others > 0 {
		p.Events.Warningf(volumeInError, "%d volumes without an event on their claims are in the status "+
			"%s in OpenStack. List them: kubectl openstack-csi volumes -A --clouds clouds.yaml",
			others, status)
	}
	return nil
}

// persistentVolume returns the PersistentVolume of a volume, an empty one if it cannot be read, and
// nil if the volume is not one of this cluster: others may use the project, too.
func (p *Probe) persistentVolume(
	ctx context.Context, v openstack.Volume, readable bool,
) (*corev1.PersistentVolume, error) {
	if !provisioned.MatchString(v.Name) {
		return nil, nil
	}
	if !readable {
		return &corev1.PersistentVolume{}, nil
	}
	pv, err := p.Guest.Kube.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
	if err != nil {
		return nil, utilerrors.FilterOut(err, apierrors.IsNotFound)
	}
	if csi := pv.Spec.CSI; csi == nil || csi.Driver != p.Driver || csi.VolumeHandle != v.ID {
		return nil, nil
	}
	return pv, nil
}

// tell sends an event on the claim of a PersistentVolume. It contains nothing that the cloud wrote.
// It returns false if there is no claim or it fails.
func (p *Probe) tell(ctx context.Context, pv *corev1.PersistentVolume, status string) bool {
	now, claim := metav1.NewTime(p.Clock.Now()), pv.Spec.ClaimRef
	if claim == nil || pv.Status.Phase != corev1.VolumeBound {
		return false
	}
	_, err := p.Guest.Kube.CoreV1().Events(claim.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", pv.Name, now.UnixNano())},
		InvolvedObject: *claim, Type: corev1.EventTypeWarning, Reason: volumeInError,
		Message: "The volume is in the status " + status + " in OpenStack. Ask the administrator of " +
			"the cluster: kubectl openstack-csi volumes --clouds clouds.yaml says more",
		Source:         corev1.EventSource{Component: p.Events.ComponentName()},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	return err == nil
}
