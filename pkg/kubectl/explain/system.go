// Package explain explains from objects why a claim, a pod, a snapshot, a workload or a driver is
// in its state: each link of the chain from the object to the cloud. It sends no requests. Package
// diagnosis decides what is a problem. pkg/kubectl reads the objects and calls it.
package explain

import (
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
	Controller    *appsv1.Deployment
	// ReplicaSets are those of Controller, Pods the pods of the driver.
	ReplicaSets []appsv1.ReplicaSet
	Pods        []corev1.Pod
	Nodes       []appsv1.DaemonSet
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
	for _, sidecar := range s.Sidecars() {
		if f := s.Leaderless(sidecar); f != nil {
			findings = append(findings, *f)
		}
	}
	slices.SortStableFunc(findings, func(a, b diagnosis.Finding) int {
		return a.Severity.Compare(b.Severity)
	})
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
			l.Text = fmt.Sprintf("%s, for %s: %s", f.Type, age(s.Now, f.Since), l.Text)
		}
		links = append(links, l)
	}
	if Cause(links) == nil {
		links = append(links, s.cloudLinks()...)
	}
	if s.Controller != nil {
		links = append(links, deploymentLink(s.Controller, s.ReplicaSets, s.Now))
	}
	for i := range s.Nodes {
		links = append(links, daemonSetLink(&s.Nodes[i], nil, s.Now))
	}
	if s.Hidden[HiddenControlPlane] {
		links = append(links, Link{NotVisible, "the pods of the hosted control plane", ""})
	}
	return links
}

// links returns the links from the driver to the cloud, for work of a sidecar.
func (s *System) links(sidecar Sidecar) []Link {
	links := s.cloudLinks()
	switch {
	case s.Hidden[HiddenControlPlane]:
		links = append(links, Link{NotVisible, "the pods of the hosted control plane", ""})
	case s.Hidden[HiddenDeployments]:
		links = append(links, Link{NotVisible, "the Deployment of the driver", ""})
	case s.Controller == nil:
		links = append(links, Link{Problem, "the Deployment of the driver does not exist", ""})
	default:
		links = append(links, deploymentLink(s.Controller, s.ReplicaSets, s.Now))
	}
	if _, exists := s.Leases[sidecar]; !exists {
		return links
	}
	switch f := s.Leaderless(sidecar); {
	case s.Hidden[HiddenLeases]:
		return append(links, Link{NotVisible, "the Lease of the " + string(sidecar), ""})
	case f != nil:
		return append(links, linkOf(*f))
	case s.Leases[sidecar] == nil:
		return links
	}
	return append(links, Link{OK, fmt.Sprintf("the %s of pod %s leads", sidecar,
		Leader(s.Leases[sidecar], s.Now)), ""})
}

// cloudLinks returns a link for each problem of the operator, the cloud, or the credentials. If
// there is none, it returns one that says so.
func (s *System) cloudLinks() []Link {
	var links []Link
	for _, f := range s.Findings() {
		if f.Type != "SidecarWithoutLeader" && f.Severity == diagnosis.Problem {
			links = append(links, linkOf(f))
		}
	}
	if len(links) == 0 {
		text := s.Title + " answers"
		if s.Condition("CredentialsAccepted") != nil {
			text += "; credentials accepted"
		}
		links = append(links, Link{OK, text, ""})
	}
	return links
}

func workloadLink(name string, available, wanted, updated int32, rollout string) Link {
	state := OK
	switch {
	case available == 0 && wanted > 0:
		state = Problem
	case available < wanted || updated < wanted:
		state = Progress
	}
	text := fmt.Sprintf("%s %d/%d", name, available, wanted)
	if updated < wanted {
		text += fmt.Sprintf(", %d of %d up to date", updated, wanted)
	}
	if rollout != "" {
		text += ", " + rollout
	}
	return Link{state, text, ""}
}

func age(now, since time.Time) string { return duration.HumanDuration(now.Sub(since)) }
