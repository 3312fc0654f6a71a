package kubectl

import (
	"strings"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// blame orders the links of an object, and those from its driver to the cloud: the cause comes
// first. If the driver or OpenStack refused the request, nothing else is the cause.
func blame(own []Link, known certainty, s *system, sidecar diagnosis.Sidecar) []Link {
	if s == nil {
		return own
	}
	links := s.links(sidecar, known, len(own) > 0)
	switch {
	case known == decisive:
		return append(own, nearby(links)...)
	case causeOf(links) != nil && causeOf(links).State == Problem:
		return append(links, own...)
	}
	return append(own, links...)
}

// links returns the links from the driver to the cloud, for work of a sidecar. Errors say that
// somebody has answered.
func (s *system) links(sidecar diagnosis.Sidecar, known certainty, errors bool) []Link {
	cloud := s.cloudLinks(known, errors)
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
			links = append(links, linkOf(*f))
		case lease != nil:
			links = append(links, linkf(OK, "the %s of pod %s leads", sidecar, s.leader(lease)))
		}
	}
	return append(links, cloud...)
}

func (s *system) controllerLinks() []Link {
	switch {
	case s.hidden[hiddenControlPlane]:
		return only(NotVisible, "the pods of the hosted control plane")
	case s.hidden["Deployments"]:
		return only(NotVisible, "the Deployment of the driver")
	case s.namespaceGone:
		return []Link{linkOf(s.noNamespace())}
	case s.controller == nil:
		return only(Problem, "the Deployment of the driver does not exist")
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

// cloudLinks returns a link for each problem of the operator, the cloud, or the credentials. If
// there is none, it returns one that says so.
func (s *system) cloudLinks(known certainty, errors bool) []Link {
	var causes, others []Link
	for _, f := range s.findings() {
		switch {
		case f.Severity != Problem && f.Reason != string(opv1.Unmanaged),
			f.Type == sidecarWithoutLeader, f.Type == diagnosis.TypePods, f.Type == namespaceGone:
		case strings.HasSuffix(f.Type, "CloudReachable"),
			strings.HasSuffix(f.Type, "CredentialsAccepted") && (known == loginRefused || !errors):
			causes = append(causes, linkOf(f))
		default:
			others = append(others, linkOf(f))
		}
	}
	links := append(causes, nearby(others)...)
	if len(links) == 0 {
		text := s.of.title + " answers"
		if s.condition("CredentialsAccepted") != nil {
			text += "; credentials accepted"
		}
		links = only(OK, "%s", text)
	}
	return links
}
