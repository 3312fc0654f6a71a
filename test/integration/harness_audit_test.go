//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	auditlog "github.com/openstack-csi/csi-operator/test/devcluster/audit"
)

// request is a completed request from an API server's audit log.
type request struct {
	Cluster                                                        *cluster
	User, Verb, Group, Resource, Subresource, Namespace, Name, URI string
	Code                                                           int
	Time                                                           time.Time
}

func (r request) String() string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	return fmt.Sprintf("%s %s: %s %s %s/%s: %d (%s)", r.Time.Format("15:04:05.000"),
		r.Cluster.name, r.Verb, resource, r.Namespace, r.Name, r.Code, r.URI)
}

// isWrite returns true for requests that change an object other than a Lease. Reviews change
// nothing, and nor does the deletion of an object that does not exist.
func (r request) isWrite() bool {
	verbs := []string{"create", "update", "patch", "delete", "deletecollection"}
	ignored := []string{
		"leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews",
	}
	return slices.Contains(verbs, r.Verb) && !slices.Contains(ignored, r.Resource) &&
		(r.Verb != "delete" || r.Code != http.StatusNotFound)
}

// readsNamespace returns true for requests that read all objects of a resource in a namespace.
func (r request) readsNamespace() bool {
	return r.Namespace != "" && r.Name == "" && (r.Verb == "list" || r.Verb == "watch") &&
		!strings.Contains(r.URI, "metadata.name")
}

// auditMark is a point in time and the positions in the audit logs that belong to it.
type auditMark struct {
	offsets map[*cluster]int64
	time    time.Time
}

// isDelayedEvent returns true if the request creates an event that was emitted before the mark: the
// client sends only a few events each second. Its name ends in the time of its emission.
func (r request) isDelayedEvent(since auditMark) bool {
	if r.Resource != "events" || r.Verb != "create" {
		return false
	}
	emitted, err := strconv.ParseInt(r.Name[strings.LastIndex(r.Name, ".")+1:], 16, 64)
	return err == nil && time.Unix(0, emitted).Before(since.time)
}

// sender identifies an operator in the audit log: by user name, or by program if the API server
// refused its credentials.
type sender struct{ user, program string }

func (s sender) sent(e auditv1.Event, code int) bool {
	if code == http.StatusUnauthorized {
		return strings.HasPrefix(e.UserAgent, s.program+"/")
	}
	return e.User.Username == s.user && e.Stage == auditv1.StageResponseComplete
}

// requestsSince returns the sender's requests that the audit log contains after the offset, except
// those that the sender cancelled before the API server knew it.
func (c *cluster) requestsSince(offset int64, from sender) ([]request, error) {
	events, err := auditlog.ReadFile(c.dir.AuditLog(), offset, func(line []byte) bool {
		return bytes.Contains(line, []byte(from.user)) || bytes.Contains(line, []byte(from.program))
	})
	if err != nil {
		return nil, err
	}
	var requests []request
	for _, e := range events {
		object := ptr.Deref(e.ObjectRef, auditv1.ObjectReference{})
		code := int(ptr.Deref(e.ResponseStatus, metav1.Status{}).Code)
		cancelled, err := c.cancelled(e, code)
		if err != nil {
			return nil, err
		}
		if from.sent(e, code) && !cancelled {
			requests = append(requests, request{
				Cluster: c, User: e.User.Username, Verb: e.Verb,
				Group: object.APIGroup, Resource: object.Resource, Subresource: object.Subresource,
				Namespace: object.Namespace, Name: object.Name,
				URI: e.RequestURI, Code: code, Time: e.RequestReceivedTimestamp.Time,
			})
		}
	}
	return requests, nil
}

// cancelled reports whether the client cancelled a request while the API server authenticated it,
// as an ending operator does. The audit log records it like a request with a wrong token. Only the
// API server's own log contains the reason, at a time within the request.
func (c *cluster) cancelled(e auditv1.Event, code int) (bool, error) {
	if code != http.StatusUnauthorized {
		return false, nil
	}
	log, err := os.ReadFile(filepath.Join(c.dir.Logs(), "kube-apiserver.log"))
	if err != nil {
		return false, err
	}
	const layout = "E0102 15:04:05.000000"
	received := e.RequestReceivedTimestamp.Local().Format(layout)
	answered := e.StageTimestamp.Local().Format(layout)
	for line := range strings.Lines(string(log)) {
		at := line[:min(len(line), len(layout))]
		if received <= at && at <= answered &&
			strings.Contains(line, "Unable to authenticate the request") &&
			strings.Contains(line, "context canceled") {
			return true, nil
		}
	}
	return false, nil
}

// audit reads the operator's requests from the audit logs.
type audit struct {
	*scope
	cluster *testCluster
	subject subject
}

// mark returns the current end of the audit logs.
func (a *audit) mark() auditMark {
	a.t.Helper()
	mark := auditMark{map[*cluster]int64{}, time.Now()}
	for _, c := range a.cluster.clusters() {
		log, err := os.Stat(c.dir.AuditLog())
		a.must(err)
		mark.offsets[c] = log.Size()
	}
	return mark
}

// requests returns the operator's requests that an API server received after the mark and that all
// filters accept: it may log an earlier one later. Requests are in the order of the clusters.
func (a *audit) requests(since auditMark, filters ...func(request) bool) []request {
	a.t.Helper()
	var all []request
	for _, c := range a.cluster.clusters() {
		operator := sender{c.user(a.subject.Name), a.subject.Program}
		some, err := c.requestsSince(since.offsets[c], operator)
		a.must(err)
		all = append(all, some...)
	}
	filters = append(filters, func(r request) bool { return !r.Time.Before(since.time) })
	return slices.DeleteFunc(all, func(r request) bool {
		return slices.ContainsFunc(filters, func(accept func(request) bool) bool {
			return !accept(r)
		})
	})
}

// writes returns the operator's writes since the mark.
func (a *audit) writes(since auditMark) []request {
	a.t.Helper()
	return a.requests(since, request.isWrite, func(r request) bool {
		return !r.isDelayedEvent(since)
	})
}

// expectNone fails the test with the message if there are requests.
func (a *audit) expectNone(message string, requests []request) {
	a.t.Helper()
	if len(requests) > 0 {
		a.t.Errorf("%s:\n%s", message, list(requests))
	}
}

func onCluster(c *cluster) func(request) bool {
	return func(r request) bool { return r.Cluster == c }
}

// ofResource accepts requests for a resource, such as "storageclasses".
func ofResource(resource string) func(request) bool {
	return func(r request) bool { return r.Resource == resource }
}

// notOfResource accepts requests for other resources.
func notOfResource(resources ...string) func(request) bool {
	return func(r request) bool { return !slices.Contains(resources, r.Resource) }
}

func ofVerb(verbs ...string) func(request) bool {
	return func(r request) bool { return slices.Contains(verbs, r.Verb) }
}

// deletions accepts requests that delete objects, except those of CSI-Addons.
func deletions(r request) bool {
	return (r.Verb == "delete" || r.Verb == "deletecollection") && !r.deletesAddons()
}

// statusWrites accepts writes of the ClusterCSIDriver's status.
func statusWrites(r request) bool {
	return r.isWrite() && r.Resource == "clustercsidrivers" && r.Subresource == "status"
}

// successful accepts requests that the API server granted. Conflicts write nothing.
func successful(r request) bool { return r.Code < 300 }

func list(requests []request) string {
	lines := make([]string, 0, len(requests))
	for _, r := range requests {
		lines = append(lines, r.String())
	}
	return strings.Join(lines, "\n")
}
