// Package explain explains from objects why a claim, a pod, a snapshot, a workload or a driver is
// in its state: each link of the chain from the object to the cloud. It sends no requests. Package
// diagnosis decides what is a problem. pkg/kubectl reads the objects and calls it.
package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// System contains the objects of one driver. The kinds in Hidden could not be read; every other
// object that is nil does not exist.
type System struct {
	Now    time.Time
	Hidden map[string]bool

	// Title is the name of the driver for people.
	Title  string
	Driver *opv1.ClusterCSIDriver
	// Workloads is the number of workloads that the operator should report.
	Workloads int
	// OperatorName is namespace/name of the operator's Deployment.
	OperatorName  string
	Operator      *appsv1.Deployment
	OperatorLease *coordinationv1.Lease
	// OperatorPods are read if Operator lacks pods.
	OperatorPods []corev1.Pod
	Controller   *appsv1.Deployment
	// ReplicaSets are those of Controller, Pods its pods.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
	Nodes       []appsv1.DaemonSet
	// NodePods are the pods of those DaemonSets that lack pods, Failures why a DaemonSet cannot create
	// pods.
	NodePods []corev1.Pod
	Failures map[string]string
	// NamespaceGone is the namespace of the driver if it does not exist, or is being deleted.
	NamespaceGone string
	// Leases contains a key for each sidecar of the driver.
	Leases map[Sidecar]*coordinationv1.Lease
}

// The keys of System.Hidden.
const (
	HiddenControlPlane = "hosted control plane"
	HiddenLeases       = "Leases"
	HiddenPods         = "Pods"
	HiddenDeployments  = "Deployments"
)

// Sidecars returns the sidecars of the driver in a stable order.
func (s *System) Sidecars() []Sidecar {
	all := []Sidecar{Provisioner, Attacher, Resizer, Snapshotter}
	return slices.DeleteFunc(all, func(one Sidecar) bool { _, ok := s.Leases[one]; return !ok })
}

// Findings returns everything that is wrong with the driver, the worst first.
func (s *System) Findings() []diagnosis.Finding {
	findings := diagnosis.Driver(s.Driver, s.Workloads)
	if !s.Hidden[HiddenControlPlane] && !s.Hidden[HiddenLeases] {
		findings = append(operator(s.OperatorName, s.OperatorLease, s.Now), findings...)
	}
	findings = s.addPodFindings(findings)
	if s.NamespaceGone != "" {
		findings = append(findings, *s.namespaceFinding())
	}
	for _, sidecar := range s.Sidecars() {
		if f := s.Leaderless(sidecar); f != nil {
			findings = append(findings, *f)
		}
	}
	slices.SortStableFunc(findings, func(a, b diagnosis.Finding) int {
		return cmp.Or(a.Severity.Compare(b.Severity), cmp.Compare(s.rank(a), s.rank(b)))
	})
	return findings
}

// rank sorts problems: each may explain those that follow.
func (s *System) rank(f diagnosis.Finding) int {
	ofOperator := s.Operator != nil && strings.Contains(f.Message, s.Operator.Name+" ")
	switch {
	case f.Type == "NamespaceGone", f.Type == diagnosis.TypePods && ofOperator:
		return 0
	case f.Type == "OperatorAbsent":
		return 1
	case strings.HasSuffix(f.Type, "CloudReachable"), strings.HasSuffix(f.Type, "CredentialsAccepted"):
		return 2
	case f.Type == diagnosis.TypePods:
		return 3
	}
	return 4
}

// addPodFindings adds why pods of the driver and of its operator do not run. It removes what the
// conditions say about the same workload.
func (s *System) addPodFindings(findings []diagnosis.Finding) []diagnosis.Finding {
	all := s.workloads()
	if s.Operator != nil {
		all = append(all, diagnosis.NewWorkload(s.Operator, s.OperatorPods))
	}
	for _, w := range all {
		found := diagnosis.Pods(w)
		if found == nil {
			continue
		}
		findings = slices.DeleteFunc(findings, func(f diagnosis.Finding) bool {
			same := slices.Contains(diagnosis.PodReasons(), f.Reason) &&
				strings.Contains(f.Message, w.Kind+" "+w.Name+" ")
			if same {
				found.Since = f.Since
			}
			return same
		})
		findings = append(findings, *found)
	}
	return findings
}

// Leaderless returns a problem if no process of a sidecar leads. There is none before the driver is
// deployed, or if the Leases are not visible.
func (s *System) Leaderless(sidecar Sidecar) *diagnosis.Finding {
	visible := !s.Hidden[HiddenControlPlane] && !s.Hidden[HiddenDeployments]
	if s.Hidden[HiddenLeases] || len(s.Nodes) == 0 || visible && s.Controller == nil {
		return nil
	}
	pods := s.Pods
	if s.Hidden[HiddenPods] || s.Hidden[HiddenControlPlane] {
		pods = nil
	} else if pods == nil {
		pods = []corev1.Pod{}
	}
	return noLeader(sidecar, s.Leases[sidecar], pods, s.Now)
}

// Condition returns the condition of the driver whose type ends in suffix.
func (s *System) Condition(suffix string) *opv1.OperatorCondition {
	for i, c := range s.Driver.Status.Conditions {
		if strings.HasSuffix(c.Type, suffix) {
			return &s.Driver.Status.Conditions[i]
		}
	}
	return nil
}

// Driver returns the links from a ClusterCSIDriver to its workloads and to the cloud.
func Driver(s *System) []Link {
	var links []Link
	for _, f := range s.Findings() {
		l := linkOf(f)
		if !f.Since.IsZero() {
			l.Text = fmt.Sprintf("%s, for %s: %s", f.Type, age(s.Now, f.Since.Time), l.Text)
		}
		links = append(links, l)
	}
	if Cause(links) == nil {
		links = append(links, s.cloudLinks(unknown, false)...)
	}
	if s.Controller != nil {
		links = append(links, s.controllerLink())
	}
	for i := range s.Nodes {
		links = append(links, workloadLink(&s.Nodes[i], nil, s.Now))
	}
	if s.Hidden[HiddenControlPlane] {
		links = append(links, Link{NotVisible, "the pods of the hosted control plane", ""})
	}
	return links
}

// blame puts what is said about an object itself before or behind the links from its driver to the
// cloud. If the driver or OpenStack refused the request, nothing else is the cause.
func blame(own []Link, known answer, s *System, sidecar Sidecar) []Link {
	if s == nil {
		return own
	}
	links := s.links(sidecar, known, len(own) > 0)
	switch {
	case known == decisive:
		return append(own, nearby(links)...)
	case Cause(links) != nil && Cause(links).State == Problem:
		return append(links, own...)
	}
	return append(own, links...)
}

// links returns the links from the driver to the cloud, for work of a sidecar. Errors say that
// somebody has answered.
func (s *System) links(sidecar Sidecar, known answer, errors bool) []Link {
	cloud := s.cloudLinks(known, errors)
	var links []Link
	if Cause(cloud) != nil { // often the cause of what is wrong with the pods, too
		links, cloud = cloud, nil
	}
	links = append(links, s.controllerLinks()...)
	if _, exists := s.Leases[sidecar]; exists {
		switch f := s.Leaderless(sidecar); {
		case s.Hidden[HiddenLeases]:
			links = append(links, Link{NotVisible, "the Lease of the " + string(sidecar), ""})
		case f != nil:
			links = append(links, linkOf(*f))
		case s.Leases[sidecar] != nil:
			links = append(links, Link{OK, fmt.Sprintf("the %s of pod %s leads", sidecar,
				Leader(s.Leases[sidecar], s.Now)), ""})
		}
	}
	return append(links, cloud...)
}

// controllerLinks returns links about the Deployment of the driver.
func (s *System) controllerLinks() []Link {
	switch {
	case s.Hidden[HiddenControlPlane]:
		return []Link{{NotVisible, "the pods of the hosted control plane", ""}}
	case s.Hidden[HiddenDeployments]:
		return []Link{{NotVisible, "the Deployment of the driver", ""}}
	case s.NamespaceGone != "":
		return []Link{linkOf(*s.namespaceFinding())}
	case s.Controller == nil:
		return []Link{{Problem, "the Deployment of the driver does not exist", ""}}
	}
	link := s.controllerLink()
	if link.State == Progress { // one of the pods works
		link.State = Warning
	}
	if f := diagnosis.Pods(s.workloads()[0]); f != nil {
		trouble := linkOf(*f)
		if link.State == Warning {
			trouble = also(trouble)
		}
		return []Link{trouble, link}
	}
	return []Link{link}
}

func (s *System) controllerLink() Link {
	return workloadLink(s.Controller, templatesOfReplicaSets(s.Controller, s.ReplicaSets), s.Now)
}

// workloads returns the workloads with their pods, the Deployment first.
func (s *System) workloads() []diagnosis.Workload {
	var all []diagnosis.Workload
	if s.Controller != nil {
		all = append(all, diagnosis.NewWorkload(s.Controller, s.Pods))
	}
	for i := range s.Nodes {
		w := diagnosis.NewWorkload(&s.Nodes[i], s.NodePods)
		w.Failure = s.Failures[w.Name]
		all = append(all, w)
	}
	return all
}

func (s *System) namespaceFinding() *diagnosis.Finding {
	return &diagnosis.Finding{
		Severity: diagnosis.Problem, Type: "NamespaceGone", Reason: "NamespaceGone",
		Runbook: "openstackcsidegraded", Message: "namespace " + s.NamespaceGone +
			" of the driver does not exist, or is being deleted. Apply the manifests of the operator again",
	}
}

// cloudLinks returns a link for each problem of the operator, the cloud, or the credentials. If
// there is none, it returns one that says so.
func (s *System) cloudLinks(known answer, errors bool) []Link {
	var causes, others []Link
	for _, f := range s.Findings() {
		l := []Link{linkOf(f)}
		switch {
		case f.Severity != diagnosis.Problem && f.Reason != string(opv1.Unmanaged),
			f.Type == sidecarWithoutLeader, f.Type == diagnosis.TypePods, f.Type == "NamespaceGone":
		case strings.HasSuffix(f.Type, "CloudReachable"),
			strings.HasSuffix(f.Type, "CredentialsAccepted") && (known == login || !errors):
			causes = append(causes, l...)
		default:
			others = append(others, nearby(l)...)
		}
	}
	links := append(causes, others...)
	if len(links) == 0 {
		text := s.Title + " answers"
		if s.Condition("CredentialsAccepted") != nil {
			text += "; credentials accepted"
		}
		links = append(links, Link{OK, text, ""})
	}
	return links
}

func age(now, since time.Time) string { return duration.HumanDuration(now.Sub(since)) }
