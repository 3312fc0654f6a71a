package kubectl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

const isDefault = "storageclass.kubernetes.io/is-default-class"

// explainClass explains whether claims of a StorageClass get volumes, and who uses it.
func explainClass(ctx context.Context, q question, class *storagev1.StorageClass) *Explanation {
	links := q.classDriver(ctx, class)
	links = append(links, q.topologyLinks(ctx, class)...)
	links = append(append(links, q.defaultLink(ctx, class)), q.usersLinks(ctx, class)...)
	return &Explanation{State: "a class of driver " + class.Provisioner, Chain: links}
}

// classDriver returns whether the driver of a class exists and works, and offers its type.
func (s *session) classDriver(ctx context.Context, class *storagev1.StorageClass) []Link {
	sys := s.systemOf(ctx, class.Provisioner)
	switch {
	case s.isGone(sys, class.Provisioner):
		return []Link{s.goneLink(class.Provisioner)}
	case sys == nil && s.guest.unseen():
		return only(NotVisible, "the objects of drivers, so whether the driver works")
	case sys == nil:
		registered, meant := s.meantDriver(ctx, class.Provisioner)
		// Names of other provisioners than CSI drivers contain a slash.
		if registered || strings.Contains(class.Provisioner, "/") {
			return only(Warning, "these operators do not maintain driver %s", class.Provisioner)
		}
		l := linkf(Problem, "no driver %s is registered in the cluster, so claims of the class wait",
			class.Provisioner).then("Create the class again with a provisioner that exists")
		if meant != "" {
			l.Next += ". Did you mean " + meant + "?"
		}
		return []Link{l}
	}
	claim := &claimFacts{session: s, class: class, provisioner: class.Provisioner, sys: sys}
	links := claim.typeLinks()
	for _, f := range sys.findings() {
		if f.Severity != Warning {
			links = append(links, linkOf(f))
		}
	}
	for _, l := range claim.addUnknown(nil) {
		l.State = Problem // it is what the question is about
		links = append(links, l)
	}
	if len(links) == 0 {
		links = only(OK, "driver %s is ready", sys.of.title)
	}
	return links
}

// meantDriver returns whether a provisioner is a registered driver, and if not, which one is meant;
// "" if it is similar to none.
func (s *session) meantDriver(
	ctx context.Context, provisioner string,
) (registered bool, meant string) {
	names := namesOf(list[storagev1.CSIDriverList](ctx, s.guest).Items)
	if s.guest.hidden["CSIDrivers"] || slices.Contains(names, provisioner) {
		return true, ""
	}
	for _, d := range s.guest.drivers() {
		if names = append(names, d.name); strings.Contains(provisioner, strings.ToLower(d.title)) {
			return false, d.name
		}
	}
	return false, position.Similar(names, provisioner)
}

// topologyLinks returns a problem if no node is in the topology that the class allows.
func (s *session) topologyLinks(ctx context.Context, class *storagev1.StorageClass) []Link {
	if len(class.AllowedTopologies) == 0 {
		return nil
	}
	nodes := list[corev1.NodeList](ctx, s.guest).Items
	if s.guest.hidden["Nodes"] {
		return only(NotVisible, "the nodes, so whether one is in a zone that allowedTopologies contains")
	}
	_, terms := (&claimFacts{claim: &corev1.PersistentVolumeClaim{}, class: class}).topology()
	selector, err := nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: terms})
	if err == nil && slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		return selector.Match(&n)
	}) {
		return only(OK, "a node is in the allowed topology")
	}
	var allowed []string
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			allowed = append(allowed, e.Key+"="+strings.Join(e.Values, "|"))
		}
	}
	return []Link{linkf(Problem, "no node has the labels that allowedTopologies requires (%s), so no "+
		"pod can use a volume of the class", strings.Join(allowed, ", ")).
		then("Add such a node, or create the class again with a zone of the nodes")}
}

// defaults returns the default classes, the newest first.
func (s *session) defaults(ctx context.Context) []storagev1.StorageClass {
	all := slices.DeleteFunc(list[storagev1.StorageClassList](ctx, s.guest).Items,
		func(c storagev1.StorageClass) bool { return c.Annotations[isDefault] != "true" })
	slices.SortStableFunc(all, func(a, b storagev1.StorageClass) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	return all
}

// ownerOfDefault returns the driver whose operator resets the annotation of its classes, because
// its defaultClass names none; nil if there is none.
func (s *session) ownerOfDefault(ctx context.Context) *driver {
	return s.guest.driverIf(func(d driver) bool {
		object := ptr.Deref(s.object(ctx, d), opv1.ClusterCSIDriver{})
		return slices.ContainsFunc(object.Status.Conditions, func(c opv1.OperatorCondition) bool {
			return strings.Contains(c.Message, ": "+choice.AbsentDefault)
		})
	})
}

// defaultless returns the driver that decides about the default class, and that there is none.
func (s *session) defaultless(ctx context.Context, classes []Class) (driverTitle, text string) {
	of := cmp.Or(s.ownerOfDefault(ctx), s.guest.driverIf(func(d driver) bool {
		return slices.ContainsFunc(classes, func(c Class) bool { return c.Driver == d.title })
	}))
	return of.title, "no StorageClass is the default, so claims that name none wait. Write the name " +
		"of an existing one in " + s.guest.setting("defaultClass", of.name)
}

// defaultLink says whether the class is the default, also of several.
func (s *session) defaultLink(ctx context.Context, class *storagev1.StorageClass) Link {
	defaults := namesOf(s.defaults(ctx))
	switch {
	case !slices.Contains(defaults, class.Name):
		return linkf(OK, "it is not the default class")
	case len(defaults) > 1:
		return linkf(Warning, "StorageClasses %s are the default. Claims that name none get the newest",
			strings.Join(defaults, ", "))
	}
	return linkf(OK, "it is the default class")
}

// usersLinks says how many claims have the class, and why the first ones wait.
func (s *session) usersLinks(ctx context.Context, class *storagev1.StorageClass) []Link {
	claims := list[corev1.PersistentVolumeClaimList](ctx, s.guest).Items
	if s.guest.hidden["PersistentVolumeClaims"] {
		return only(NotVisible, "the claims of the class")
	}
	c := Class{Name: class.Name}
	c.count(claims)
	links := only(OK, "%d claims have the class, of which %d are pending", *c.Claims, *c.Pending)
	for i := range claims {
		if ptr.Deref(claims[i].Spec.StorageClassName, "") == class.Name && len(links) <= maxPods &&
			claims[i].Status.Phase == corev1.ClaimPending {
			for _, l := range s.factsOf(ctx, &claims[i]).links(ctx) {
				if l.State == Progress { // other claims may get a volume
					l = also(l)
				}
				links = append(links, l)
			}
		}
	}
	return links
}
