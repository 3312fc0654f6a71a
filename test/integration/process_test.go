//go:build integration

package integration

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
)

// TestMissingImagesEndTheProcess: each image variable that is missing is named, all in one line.
func TestMissingImagesEndTheProcess(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Idle: true})
	missing := []string{"DRIVER_IMAGE", "NFS_DRIVER_IMAGE", "KUBE_RBAC_PROXY_IMAGE"}
	environment := slices.DeleteFunc(e.operatorEnv(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(missing, name)
	})
	code, output := runOperator(t, soon, environment, e.operatorArgs()...)
	if code == 0 {
		t.Error("the operator ended with code 0")
	}
	if lines := strings.Split(strings.TrimSpace(output), "\n"); len(lines) != 1 {
		t.Errorf("the operator wrote %d lines, want one:\n%s", len(lines), output)
	}
	for _, name := range missing {
		if !strings.Contains(output, " "+name+" is missing") {
			t.Errorf("the operator did not say that %s is missing:\n%s", name, output)
		}
	}
}

// leaseHolder returns who leads, "" for nobody.
func (e *env) leaseHolder() (string, error) {
	lease, err := e.management.kube.CoordinationV1().Leases(e.management.namespace).Get(e.ctx(), e.subject.component+"-lock", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}

func (e *env) isLed() error {
	holder, err := e.leaseHolder()
	if err == nil && holder == "" {
		err = errors.New("nobody leads")
	}
	return err
}

func (e *env) isNotLed() error {
	holder, err := e.leaseHolder()
	if err == nil && holder != "" {
		err = fmt.Errorf("%s still leads", holder)
	}
	return err
}

// TestEndGivesTheLeaseBack: after SIGTERM nobody leads, and the next operator leads at once.
func TestEndGivesTheLeaseBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.must(e.isLed())
	first, err := e.leaseHolder()
	e.must(err)
	e.stopOperator()
	e.must(e.isNotLed())
	e.startOperator()
	e.within(5*time.Second, e.isLed)
	second, err := e.leaseHolder()
	e.must(err)
	if second == first {
		t.Errorf("the second operator calls itself %s like the first", second)
	}
}

// TestChangedConfigEndsTheProcess: cluster-storage-operator changes the file when the TLS profile changes; the operator ends
// well, for the next one to read it (fault 150).
func TestChangedConfigEndsTheProcess(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.setConfig("  minTLSVersion: VersionTLS13\n")
	e.awaitEnd(soon)
	e.must(e.isNotLed())
	e.startOperator()
	e.awaitAvailable()
	e.eventually(soon, func() error {
		version, err := e.tlsVersion(tls.VersionTLS12)
		if err == nil {
			return fmt.Errorf("the new operator speaks TLS version %x, although 1.3 is asked for", version)
		}
		_, err = e.tlsVersion(tls.VersionTLS13)
		return err
	})
}

// tlsVersion connects to the operator with no higher version than given.
func (e *env) tlsVersion(highest uint16) (uint16, error) {
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: highest}} //nolint:gosec // the certificate is the operator's own.
	address, err := e.address()
	if err != nil {
		return 0, err
	}
	connection, err := dialer.DialContext(e.ctx(), "tcp", address)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	secure, ok := connection.(*tls.Conn)
	if !ok {
		return 0, fmt.Errorf("the connection is a %T", connection)
	}
	return secure.ConnectionState().Version, nil
}

// TestServesHealthToAllAndMetricsToPrometheus: the kubelet has no credentials; metrics are for those who may read them.
func TestServesHealthToAllAndMetricsToPrometheus(t *testing.T) {
	t.Parallel()
	newEnv(t, options{}).mustServeEndpoints()
}

// asking is a request to the operator and the status of its answer.
type httpCheck struct {
	path, token string
	want        int
}

func (e *env) mustServeEndpoints(more ...httpCheck) {
	e.t.Helper()
	e.awaitAvailable()
	prometheus, err := e.prometheusToken()
	e.must(err)
	foreign, err := e.guest.kube.CoreV1().ServiceAccounts(operandNamespace).CreateToken(e.ctx(), nodeAccount, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	e.must(err)
	for _, c := range append([]httpCheck{
		{"/healthz", "", http.StatusOK},
		{"/readyz", "", http.StatusOK},
		{"/livez", "", http.StatusOK},
		{"/metrics", "", http.StatusUnauthorized},
		{"/metrics", "no-token", http.StatusUnauthorized},
		{"/metrics", foreign.Status.Token, http.StatusForbidden},
		{"/metrics", prometheus, http.StatusOK},
	}, more...) {
		if got, err := e.httpStatus(c.path, c.token); err != nil || got != c.want {
			e.t.Errorf("%s answers %d (%v), want %d", c.path, got, err, c.want)
		}
	}
}

// ask returns the status of the operator's answer.
func (e *env) httpStatus(path, token string) (int, error) {
	address, err := e.address()
	if err != nil {
		return 0, err
	}
	request, err := http.NewRequestWithContext(e.ctx(), http.MethodGet, "https://"+address+path, nil)
	if err != nil {
		return 0, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the certificate is the operator's own.
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}

// TestSettledOperatorIsQuiet: with nothing to do nothing is written, and next to nothing is read, poll after poll.
func TestSettledOperatorIsQuiet(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{Types: []string{"default", "foo_bar", "foo-bar", "Not A Name!"}})
	e.mustSettle()
}

// mustBeQuiet waits until the driver is there and checks that the operator leaves the clusters alone from then on.
func (e *env) mustSettle() {
	e.t.Helper()
	e.awaitAvailable()
	since := e.awaitNoWrites()
	e.awaitPollTime(5)
	e.expectNone("the operator wrote", e.requests(since, request.isWrite))
	reads := map[string]int{}
	for _, r := range e.requests(since, ofVerb("get"), func(r request) bool { return r.Resource != "leases" }) {
		reads[r.Cluster.name+": "+r.Resource+" "+r.Namespace+"/"+r.Name]++
	}
	for object, n := range reads {
		if n > 1 {
			e.t.Errorf("%s was read %d times in 5 polls, want once a minute at most", object, n)
		}
	}
	e.expectNone("the operator listed what it watches", e.requests(since, ofVerb("list")))
}

// awaitLooks lets the time of so many polls pass.
func (e *env) awaitPollTime(n int) {
	e.t.Helper()
	if e.subject.name == operatorName {
		e.awaitPolls(n)
		return
	}
	e.expectNoWritesFor(time.Duration(n) * e.options.PollInterval) // Cinder's operator looks when something has changed
}

// staleConditions are those of earlier operators: csi-driver-manila-operator up to 4.17, csi-operator from 4.18.
func staleConditions() []string {
	return []string{
		"OpenStackManilaDeploymentVersionControllerDegraded", "OpenStackManilaDriverControlPlaneStaticResourcesControllerDegraded",
		"CSIControllerDisabled", "StarterControllerDegraded", "VolumeSnapshotClassControllerDegraded",
		"OpenStackManilaDriverConditionalStaticResourcesControllerDegraded",
		"ManilaControllerDegraded", "SecretSyncDegraded", "ManilaDriverStaticResourcesDegraded",
		"ManilaDriverConditionalStaticResourcesControllerDegraded",
		"ManilaDriverControllerServiceControllerAvailable", "ManilaDriverControllerServiceControllerProgressing",
		"ManilaDriverControllerServiceControllerDegraded", "ManilaDriverNodeServiceControllerAvailable",
		"ManilaDriverNodeServiceControllerProgressing", "ManilaDriverNodeServiceControllerDegraded",
		"ManilaDriverServiceMonitorControllerDegraded", "ManilaDriverCSIConfigObserverControllerDegraded",
	}
}

// TestStaleConditionsGo: what earlier operators left is removed whether the driver runs or is disabled (1.11-1).
func TestStaleConditionsGo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		types []string
		ready func(*env) error
	}{
		"disabled": {noTypes(), func(e *env) error {
			return e.hasCondition("ManilaControllerDisabled", opv1.ConditionTrue, "NoShareTypes")
		}},
		"running": {nil, (*env).available},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Types: c.types, Before: func(e *env) {
				e.changeDriverStatus(func(s *opv1.ClusterCSIDriverStatus) {
					for _, conditionType := range staleConditions() {
						s.Conditions = append(s.Conditions, opv1.OperatorCondition{
							Type: conditionType, Status: opv1.ConditionTrue, Reason: "Stale", Message: "of an earlier release",
							LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)),
						})
					}
				})
			}})
			e.eventually(installed, func() error { return c.ready(e) })
			e.eventually(soon, func() error {
				var errs []error
				for _, conditionType := range staleConditions() {
					errs = append(errs, e.hasNoCondition(conditionType))
				}
				return errors.Join(errs...)
			})
		})
	}
}

// TestConditionsAfterARollback runs the command of the documentation that removes what another operator left: the operator that runs
// then writes its own conditions again.
func TestConditionsAfterARollback(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "conditions.md"))
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`oc patch clustercsidriver (\S+) --subresource=status --type=merge -p '(.*)'`).FindStringSubmatch(string(text))
	if command == nil || command[1] != driverName {
		t.Fatalf("the documentation contains %q", command)
	}
	e := newEnv(t, options{})
	e.awaitAvailable()
	const foreign = "OfAnotherOperatorDegraded"
	e.changeDriverStatus(func(s *opv1.ClusterCSIDriverStatus) {
		s.Conditions = append(s.Conditions, opv1.OperatorCondition{
			Type: foreign, Status: opv1.ConditionTrue, Reason: "Left", Message: "of another operator", LastTransitionTime: metav1.Now(),
		})
	})
	before, err := e.conditions()
	e.must(err)
	delete(before, foreign)
	e.patch(opv1.GroupVersion.WithResource("clustercsidrivers"), "", command[1], command[2], "status")
	e.eventually(soon, func() error {
		after, err := e.conditions()
		if err != nil {
			return err
		}
		return checkEqual(slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
	})
	e.awaitAvailable()
}
