package kubectl

import (
	"regexp"
	"strings"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
)

// judge orders what objects of a step say, and what is wrong with the driver, its sidecar, the
// operator and the cloud.
func (s *system) judge(own []Link, sidecar diagnosis.Sidecar) []Link {
	return judge(own, func(rank meaning.Rank) []Link {
		if s == nil {
			return nil
		}
		return s.around(sidecar, rank, len(own) > 0)
	})
}

// names returns what an error of the driver is about if it names nothing: a volume or share.
func (s *system) names(handle string) map[fault.Noun]string {
	if s != nil && s.of.kind == choice.Manila {
		return map[fault.Noun]string{fault.Share: handle}
	}
	return map[fault.Noun]string{fault.Volume: handle}
}

// knows says who can say more about what the controller of the driver does.
func (s *system) knows() string {
	switch {
	case s == nil:
		return "Ask who maintains the driver"
	case s.hidden[hiddenControlPlane] || s.management != nil:
		return "Ask the administrators of the " + diagnosis.ManagementCluster
	}
	return "The log of Deployment " + s.of.namespace + "/" + s.of.controller + " says more"
}

// around returns the links from the driver to the cloud, for work of a sidecar. Errors say that
// somebody has answered; rank is that of the best.
func (s *system) around(sidecar diagnosis.Sidecar, rank meaning.Rank, errors bool) []Link {
	cloud := s.cloudLinks(rank, errors)
	var links []Link
	if causeOf(cloud) != nil { // often the cause of what is wrong with the pods, too
		links, cloud = cloud, nil
	}
	links = append(links, s.controllerLinks()...)
	if lease, exists := s.leases[sidecar]; exists {
		switch f := s.leaderless(sidecar); {
		case s.hidden["Leases"]:
			links = append(links, linkf(NotVisible, "the Lease of the %s", sidecar))
		case f != nil:
			links = append(links, linkOf(*f).then("%s", s.knows()))
		case lease != nil:
			links = append(links, linkf(OK, "the %s of pod %s leads", sidecar, s.leader(lease)))
		}
	}
	return append(links, cloud...)
}

func (s *system) controllerLinks() []Link {
	switch {
	case s.hidden[hiddenControlPlane]:
		return s.hostedLinks()
	case s.hidden["Deployments"]:
		return only(NotVisible, "the Deployment of the driver")
	case s.gone() != nil:
		return s.gone()
	case s.controller == nil:
		return only(Problem, "the Deployment of the driver does not exist")
	}
	link := s.controllerLink()
	if s.controller.Spec.Replicas != nil && *s.controller.Spec.Replicas == 0 {
		return []Link{linkf(Problem, "Deployment %s has 0 replicas, so the controller of the driver "+
			"does not run", s.of.controller).then("Run: kubectl scale deployment/%s --replicas=1 -n %s",
			s.of.controller, s.controller.Namespace)}
	}
	if link.State == Progress { // one of the pods works
		link.State = Warning
	}
	if f := diagnosis.Pods(s.workloads()[0]); f != nil {
		trouble := s.linkOf(*f)
		if link.State == Warning {
			trouble = also(trouble)
		}
		return []Link{trouble, link}
	}
	return []Link{link}
}

// controllerAvailable ends the type of the condition about the Deployment of a driver.
const controllerAvailable = "ControllerServiceControllerAvailable"

// hostedLinks returns what the operator reports about the controller, whose pods are not visible.
func (s *system) hostedLinks() []Link {
	hidden := only(NotVisible, "the pods of the hosted control plane")
	for _, f := range diagnosis.Driver(s.object, 0) {
		if strings.HasSuffix(f.Type, controllerAvailable) {
			return append([]Link{s.linkOf(f)}, hidden...)
		}
	}
	return hidden
}

// linkOf returns a finding with the cluster and the people that it concerns.
func (s *system) linkOf(f diagnosis.Finding) Link {
	l := linkOf(f)
	isHosted := f.Type == diagnosis.TypePods && s.management != nil &&
		strings.HasPrefix(f.Message, "Deployment ")
	if s.hidden[hiddenControlPlane] || isHosted {
		name := "Deployment " + s.of.controller
		rest, named := strings.CutPrefix(l.Text, name)
		if !named {
			rest = ": " + rest
		}
		if !strings.Contains(rest, diagnosis.ManagementCluster) {
			l.Text = name + " of the " + diagnosis.ManagementCluster + rest
		}
		return l.then("Ask the administrators of the management cluster")
	}
	if f.Type == diagnosis.TypePods && (l.Next == "" || f.Said != "") &&
		strings.HasPrefix(f.Message, "Deployment "+s.of.controller) {
		l = l.thenStart(f.Reason, "its pods in namespace "+s.of.namespace).meant(f.Reason, "",
			s.of.namespace, operatorMakes)
	}
	return l
}

// advised returns a link about a condition, whose message says what to do after its first sentence,
// and last what applies meanwhile. On HyperShift the operator reads CA and credentials in the
// management cluster.
func (s *system) advised(l Link) Link {
	meanwhile := regexp.MustCompile(`\. (Nothing that runs|The driver) [^.]*$`)
	if at := meanwhile.FindStringIndex(l.Text); at != nil {
		l.Text, l.Detail = l.Text[:at[0]], l.Text[at[0]+len(". "):]
	}
	if at := regexp.MustCompile(`\. [A-Z]`).FindStringIndex(l.Text); at != nil {
		l.Text, l.Next = l.Text[:at[0]], l.Text[at[0]+len(". "):]
		l.Next = strings.TrimPrefix(l.Next, "The operator retries automatically. ")
	}
	switch {
	case strings.Contains(l.Text+l.Next, diagnosis.ManagementCluster):
	case s.hidden[hiddenControlPlane]:
		l.Next = strings.TrimSuffix("Ask the administrators of the "+diagnosis.ManagementCluster+": "+
			l.Next, ": ")
	case s.management != nil && l.Next != "":
		l.Next = "In the " + diagnosis.ManagementCluster + ": " + l.Next
	}
	return l
}

// cloudLinks returns a link for each problem of the operator, the cloud, or the credentials. If
// there is none, it returns one that says so.
func (s *system) cloudLinks(rank meaning.Rank, errors bool) []Link {
	var causes, others []Link
	for _, f := range s.findings() {
		switch {
		case f.Severity != Problem && f.Reason != string(opv1.Unmanaged),
			f.Type == sidecarWithoutLeader, f.Type == diagnosis.TypePods, f.Type == namespaceGone,
			s.hidden[hiddenControlPlane] && strings.HasSuffix(f.Type, controllerAvailable):
		case strings.HasSuffix(f.Type, "CloudReachable"),
			strings.HasSuffix(f.Type, "CredentialsAccepted") && (rank == meaning.LoginRefused || !errors):
			causes = append(causes, s.advised(linkOf(f)))
		default:
			others = append(others, also(linkOf(f)))
		}
	}
	links := append(causes, others...)
	if len(links) == 0 && s.condition("CloudReachable") != nil {
		text := s.of.title + " answers"
		if s.condition("CredentialsAccepted") != nil {
			text += "; credentials accepted"
		}
		links = only(OK, "%s", text)
	}
	return links
}
