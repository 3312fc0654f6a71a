package kubectl

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// consumerLinks says why no pod with the claim is scheduled. The provisioner may have failed for a
// node before the scheduler chooses another one.
func (f *claimFacts) consumerLinks(ctx context.Context) []Link {
	if own := f.provisionErrors(ctx); causeOf(own) != nil {
		return f.sys.judge(own, diagnosis.Provisioner)
	}
	users := f.users(ctx)
	for _, pod := range users {
		if pod.Spec.NodeName == "" {
			return about("pod/"+pod.Name+", which uses the claim",
				f.podFacts(ctx, &pod).schedulingLinks(ctx))
		}
	}
	if len(users) > 0 {
		return []Link{linkf(Problem, "pod/%s names node %s itself, so the scheduler, for which "+
			"StorageClass %s waits, chooses none", users[0].Name, users[0].Spec.NodeName, f.class.Name).
			then("Create the pod again without nodeName; nodeSelector chooses a node, too")}
	}
	if idle := f.idleLinks(ctx); len(idle) > 0 {
		return idle
	}
	return []Link{linkf(Warning, "StorageClass %s waits for the first pod that uses the claim "+
		"(WaitForFirstConsumer)", f.class.Name).then("Create a pod that uses it")}
}

// goneLink says that the object of a driver does not exist, and what to do.
func (s *session) goneLink(driver string) Link {
	d := s.guest.findDriver(driver)
	kind := s.guest.kindOf(*d)
	const so = ", so nobody maintains the driver"
	l := linkf(Problem, "%s is gone%s", s.guest.nameOf(*d), so).then("%s", s.guest.again(*d))
	if l.Runbook = runbookAbsent; s.guest.onOpenShift() {
		l.Next += "; on OpenShift, cluster-storage-operator creates it"
	} else if slices.Contains(s.guest.unserved, plural(kind.Kind)) {
		l.Text = fmt.Sprintf("CustomResourceDefinition %s.%s does not exist%s", strings.ToLower(
			plural(kind.Kind)), kind.Group, so)
		l.Next = s.guest.definitions(*d) + ". Volumes in use stay"
	}
	return l
}

// provisioning is the work of the provisioner of the claim.
func (f *claimFacts) provisioning() work {
	w := work{
		fails: "no volume can be created", reasons: []string{"ProvisioningFailed"},
		since: f.claim.CreationTimestamp.Time, knows: f.sys.knows(), names: f.sys.names(""),
		runbook: runbookOperations,
	}
	w.names[fault.PV] = "pvc-" + string(f.claim.UID) // as provisioners name it, and drivers the volume
	if f.class != nil {
		w.fails, w.exists = "StorageClass "+f.class.Name+" creates no volume", f.class.Name
	}
	return w
}

// provisionErrors returns the errors of the provisioner. If a node has no zone, they say why.
func (f *claimFacts) provisionErrors(ctx context.Context) []Link {
	node := f.claim.Annotations[selectedNode]
	if node != "" && f.node(ctx, node) == nil && !f.guest.hidden["Nodes"] {
		return []Link{linkf(Problem, "the scheduler has chosen node %s for pvc/%s, which does not exist "+
			"any more", node, f.claim.Name).then("Run: kubectl annotate pvc %s -n %s %s-", f.claim.Name,
			f.claim.Namespace, selectedNode)}
	}
	own := f.warnings(f.provisioning(), f.events)
	if f.class != nil {
		f.addSecret(own, "StorageClass "+f.class.Name, secretIn(f.class.Parameters,
			"csi.storage.k8s.io/provisioner-secret-", "parameter "))
	}
	for i, l := range own {
		if l.topic == meaning.Source {
			own[i] = l.then("Create the claim again with the class of the source%s", f.sourceClass(ctx))
		}
		if l.topic == meaning.Zone && l.answered == 1 && f.class != nil && f.sys != nil &&
			f.class.Parameters["availability"] == "" && len(f.class.AllowedTopologies) == 0 {
			own[i] = l.then("%s", f.otherZone())
		}
		if l.share != "" && f.sys != nil {
			a := f.ailmentOf(&f.sys.of, l.share, nil, stored{status: l.status}, true)
			if class, _, steps := a.row(); class == classFailed {
				own[i] = l.then("%s%s%s, and the driver creates it again", l.Next, thenStep, a.steps(steps))
			}
		}
		if l.topic != meaning.Zone || l.node == "" || l.State != Problem || f.sys == nil {
			continue
		}
		if trouble := causeOf(f.registered(ctx, l.node, f.sys)); trouble != nil {
			own[i].Text = fmt.Sprintf("%s, because node %s has no zone: %s", f.provisioning().fails, l.node,
				trouble.Text)
			own[i].Next, own[i].said = trouble.Next, trouble.said
		}
	}
	return own
}

// otherZone says what to do if the zone of a node is none of the driver. With topology, a volume of
// Cinder is only for nodes of its zone, whichever the class names; shares are for the allowed ones.
func (f *claimFacts) otherZone() string {
	const next = "As this is the zone of a node, "
	switch {
	case f.sys.of.kind == choice.Manila:
		return next + "create a class with parameter availability; see openstack availability zone list"
	case f.guest.onOpenShift():
		return next + "set key enable_topology of ConfigMap cinder-csi-config to false"
	}
	return next + "set " + f.guest.setting("topology", f.provisioner) + " to Disabled"
}

// provisionLinks says why no volume has been created.
func (f *claimFacts) provisionLinks(ctx context.Context) []Link {
	own, _ := best(slices.Concat(f.typeLinks(), f.createdLinks(ctx), f.provisionErrors(ctx)))
	links := f.sys.judge(f.addUnknown(own), diagnosis.Provisioner)
	if causeOf(links) == nil {
		links = append(links, f.requestLink())
	}
	return links
}

// addUnknown adds the parameters of the class that the driver ignores, and what to do about an
// error that they can explain.
func (f *claimFacts) addUnknown(own []Link) []Link {
	class := ptr.Deref(f.class, storagev1.StorageClass{})
	for _, p := range meaning.UnknownParameters("StorageClass", f.provisioner, class.Parameters) {
		l := linkf(Warning, "the driver does not know parameter %s of StorageClass %s", p.Name,
			class.Name).then("Create a class without it")
		if p.Similar != "" {
			l = l.then("Create a class with %s instead", p.Similar)
			if len(own) > 0 && own[0].topic == meaning.Class && strings.Contains(own[0].Next, p.Similar) {
				own[0].Next += "; the driver does not know " + p.Name
			}
		}
		l.rank = meaning.Consequence
		own = append(own, l)
	}
	return own
}

// typeLinks returns a problem if the operator reports that the share type of the class is gone.
func (f *claimFacts) typeLinks() []Link {
	if f.sys == nil || f.class == nil || f.class.Parameters["type"] == "" {
		return nil
	}
	prefix := fmt.Sprintf("share type %q ", f.class.Parameters["type"])
	for _, finding := range diagnosis.Driver(f.sys.object, 0) {
		if !strings.HasSuffix(finding.Type, "ShareTypesServed") {
			continue
		}
		for fault := range strings.SplitSeq(finding.Message, "\n") {
			if strings.HasPrefix(fault, prefix) {
				finding.Severity, finding.Message = Problem, fault
				return []Link{linkOf(finding)}
			}
		}
	}
	return nil
}

// requestLink says whether the driver has been asked for the volume.
func (f *claimFacts) requestLink() Link {
	if f.guest.hidden["Events"] {
		return linkf(Progress, "nothing that you may see explains it").
			then("Its events, which you may not read, say more")
	}
	for _, e := range diagnosis.NewestFirst(f.events) {
		if e.Reason == "Provisioning" {
			return linkf(Progress, "the driver has been creating the volume for %s",
				f.age(diagnosis.TimeOf(e))).then("%s", f.sys.knows())
		}
	}
	return linkf(Progress, "no request for this claim was sent to OpenStack yet").
		then("%s", f.sys.knows())
}

// grows returns whether the claim requests more than the volume has.
func (f *claimFacts) grows() bool {
	want, has := f.claim.Spec.Resources.Requests.Storage(), f.claim.Status.Capacity.Storage()
	return f.sys != nil && want.Cmp(*has) > 0
}

// growthLinks says why the volume has not grown.
func (f *claimFacts) growthLinks(ctx context.Context) []Link {
	want, has := f.claim.Spec.Resources.Requests.Storage(), f.claim.Status.Capacity.Storage()
	w := work{
		fails:   fmt.Sprintf("volume %s cannot grow from %s to %s", f.handle(), has, want),
		reasons: []string{"VolumeResizeFailed", "VolumeModifyFailed", "FileSystemResizeFailed"},
		knows:   f.sys.knows(), names: f.sys.names(f.handle()), runbook: runbookOperations,
	}
	secret := named{field: "controllerExpandSecretRef"}
	if f.volume != nil { // events of an earlier volume are older
		csi := ptr.Deref(f.volume.Spec.CSI, corev1.CSIPersistentVolumeSource{})
		ref := ptr.Deref(csi.ControllerExpandSecretRef, corev1.SecretReference{})
		w.since, secret.namespace, secret.name = f.volume.CreationTimestamp.Time, ref.Namespace, ref.Name
	}
	links, onNode := f.warnings(w, f.events), false
	for _, c := range f.claim.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue || c.Message == "":
		case c.Type == corev1.PersistentVolumeClaimFileSystemResizePending:
			links, onNode = append(links, f.fileSystemLink(ctx, w)), true
		case len(links) == 0: // its events are gone
			links = append(links, w.error("", c.Message))
		}
	}
	f.addSecret(links, "the PersistentVolume", secret)
	if !onNode {
		links = f.sys.judge(links, diagnosis.Resizer)
	}
	return append(links, linkf(Progress, "grows from %s to %s", has, want).then("%s", w.knows))
}

// fileSystemLink says why the node has not grown the file system of the volume, which has grown.
func (f *claimFacts) fileSystemLink(ctx context.Context, w work) Link {
	w.reasons = append(w.reasons, mountReasons()...)
	l := linkf(Progress, "the volume has grown, and its file system grows on the node of a pod that "+
		"uses it").then("Start a pod that uses the claim")
	for _, pod := range f.holders(ctx) {
		if trouble, next := f.silence(ctx, pod.Spec.NodeName); trouble != "" {
			return linkf(Problem, "the volume has grown, and node %s, which grows its file system for "+
				"pod/%s, %s", pod.Spec.NodeName, pod.Name, trouble).then("%s", next)
		}
		l = linkf(Progress, "the volume has grown; node %s grows its file system for pod/%s",
			pod.Spec.NodeName, pod.Name).then("Wait, or see the log of the kubelet of this node")
		w.fails = fmt.Sprintf("volume %s cannot be grown or mounted on node %s, for pod/%s", f.handle(),
			pod.Spec.NodeName, pod.Name)
		if said := f.warnings(w, eventsAbout(f.volume, events(ctx, f.guest, &pod))); len(said) > 0 {
			said, _ = best(said)
			return said[0]
		}
	}
	return l
}
