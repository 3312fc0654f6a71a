//go:build integration

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	opv1 "github.com/openshift/api/operator/v1"
)

// driver returns the ClusterCSIDriver.
func (e *env) driver() (*opv1.ClusterCSIDriver, error) {
	return e.openst.OperatorV1().ClusterCSIDrivers().Get(e.ctx(), e.subject.driver, metav1.GetOptions{})
}

// changeDriver changes the ClusterCSIDriver's spec.
func (e *env) changeDriver(change func(*opv1.ClusterCSIDriver)) {
	e.t.Helper()
	e.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		driver, err := e.driver()
		if err != nil {
			return err
		}
		change(driver)
		_, err = e.openst.OperatorV1().ClusterCSIDrivers().Update(e.ctx(), driver, metav1.UpdateOptions{FieldManager: "an-administrator"})
		return err
	}))
}

// changeDriverStatus changes the ClusterCSIDriver's status as an operator of an earlier release did: by an Update.
func (e *env) changeDriverStatus(change func(*opv1.ClusterCSIDriverStatus)) {
	e.t.Helper()
	e.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		driver, err := e.driver()
		if err != nil {
			return err
		}
		change(&driver.Status)
		_, err = e.openst.OperatorV1().ClusterCSIDrivers().UpdateStatus(e.ctx(), driver, metav1.UpdateOptions{FieldManager: "csi-operator"})
		return err
	}))
}

// conditions returns all conditions by type.
func (e *env) conditions() (map[string]opv1.OperatorCondition, error) {
	driver, err := e.driver()
	if err != nil {
		return nil, err
	}
	conditions := map[string]opv1.OperatorCondition{}
	for _, c := range driver.Status.Conditions {
		conditions[c.Type] = c
	}
	return conditions, nil
}

// hasCondition returns nil if the condition has the status and, unless empty, the reason.
func (e *env) hasCondition(conditionType string, status opv1.ConditionStatus, reason string) error {
	conditions, err := e.conditions()
	if err != nil {
		return err
	}
	c, found := conditions[conditionType]
	if !found {
		return fmt.Errorf("there is no condition %s", conditionType)
	}
	if c.Status != status || reason != "" && c.Reason != reason {
		return fmt.Errorf("condition %s is %s, reason %s (%s); want %s, reason %s", conditionType, c.Status, c.Reason, c.Message, status, reason)
	}
	return nil
}

// lacksCondition returns nil if no condition has the type.
func (e *env) lacksCondition(conditionType string) error {
	conditions, err := e.conditions()
	if err != nil {
		return err
	}
	if c, found := conditions[conditionType]; found {
		return fmt.Errorf("there is condition %s=%s, reason %s (%s); want none", c.Type, c.Status, c.Reason, c.Message)
	}
	return nil
}

// ofSuffix returns the conditions whose type ends so, sorted.
func (e *env) ofSuffix(suffix string) ([]opv1.OperatorCondition, error) {
	conditions, err := e.conditions()
	return ofSuffix(conditions, suffix), err
}

func ofSuffix(conditions map[string]opv1.OperatorCondition, suffix string) []opv1.OperatorCondition {
	var found []opv1.OperatorCondition
	for conditionType, c := range conditions {
		if strings.HasSuffix(conditionType, suffix) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b opv1.OperatorCondition) int { return strings.Compare(a.Type, b.Type) })
	return found
}

// notDegraded returns nil if no *Degraded condition is True.
func (e *env) notDegraded() error {
	conditions, err := e.conditions()
	if err != nil {
		return err
	}
	return noneDegraded(conditions)
}

func noneDegraded(conditions map[string]opv1.OperatorCondition) error {
	for _, c := range ofSuffix(conditions, opv1.OperatorStatusTypeDegraded) {
		if c.Status == opv1.ConditionTrue {
			return fmt.Errorf("%s=True, reason %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	return nil
}

// available returns nil if cluster-storage-operator would report the driver as available, and as neither disabled, nor
// degraded, nor progressing. Each workload has its own *Available condition.
func (e *env) available() error {
	conditions, err := e.conditions()
	if err != nil {
		return err
	}
	available := ofSuffix(conditions, opv1.OperatorStatusTypeAvailable)
	if len(available) < len(e.subject.workloads) {
		return fmt.Errorf("there are %d *Available conditions, want those of %d workloads", len(available), len(e.subject.workloads))
	}
	for _, c := range available {
		if c.Status != opv1.ConditionTrue {
			return fmt.Errorf("%s=%s, reason %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	for _, c := range ofSuffix(conditions, opv1.OperatorStatusTypeProgressing) {
		if c.Status == opv1.ConditionTrue {
			return fmt.Errorf("%s=True, reason %s: %s", c.Type, c.Reason, c.Message)
		}
	}
	if disabled := ofSuffix(conditions, "Disabled"); len(disabled) > 0 {
		return fmt.Errorf("there is condition %s (%s): %s", disabled[0].Type, disabled[0].Reason, disabled[0].Message)
	}
	return noneDegraded(conditions)
}

// awaitAvailable waits for available, and until the operator has noted so on the DaemonSets: a test that then expects no writes
// would see that one.
func (e *env) awaitAvailable() {
	e.t.Helper()
	e.eventually(installed, e.available)
	e.eventually(installed, e.noted)
}

// noted returns nil if each DaemonSet of the driver has the annotation of library-go that its generation is rolled out. Only a
// managed operator writes it.
func (e *env) noted() error {
	driver, err := e.driver()
	if err != nil || driver.Spec.ManagementState != opv1.Managed {
		return err
	}
	for _, name := range e.subject.workloads[1:] {
		daemonSet, err := e.kube.AppsV1().DaemonSets(e.subject.operandNamespace).Get(e.ctx(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if noted := daemonSet.Annotations["storage.openshift.io/stable-generation"]; noted != strconv.FormatInt(daemonSet.Generation, 10) {
			return fmt.Errorf("DaemonSet %s has generation %d, but the operator has noted %q as rolled out", name, daemonSet.Generation, noted)
		}
	}
	return nil
}

// quiet waits for more looks at the cloud, and fails the test if the operator wrote anything meanwhile.
func (e *env) quiet(polls int) {
	e.t.Helper()
	since := e.mark()
	e.awaitPolls(polls)
	if writes := e.writes(since); len(writes) > 0 {
		e.t.Errorf("the operator wrote during %d looks at the cloud that brought nothing new:\n%s", polls, list(writes))
	}
}

// classes returns the StorageClasses of the driver by name.
func (e *env) classes() (map[string]storagev1.StorageClass, error) {
	all, err := e.kube.StorageV1().StorageClasses().List(e.ctx(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	classes := map[string]storagev1.StorageClass{}
	for _, class := range all.Items {
		if class.Provisioner == e.subject.driver {
			classes[class.Name] = class
		}
	}
	return classes, nil
}

// hasClasses returns nil if the driver's StorageClasses have these names and no others.
func (e *env) hasClasses(names ...string) error {
	classes, err := e.classes()
	if err != nil {
		return err
	}
	var found []string
	for name := range classes {
		found = append(found, name)
	}
	slices.Sort(found)
	slices.Sort(names)
	if !slices.Equal(found, names) {
		return fmt.Errorf("StorageClasses are %v, want %v", found, names)
	}
	return nil
}

// lacksWorkloads returns nil if nothing of the driver has been deployed.
func (e *env) lacksWorkloads() error {
	var surplus []string
	for _, s := range e.sides() {
		for _, kind := range []string{"deployments", "daemonsets"} {
			objects, err := s.surplus(e.ctx(), resource("apps", kind))
			if err != nil {
				return err
			}
			for _, object := range objects {
				surplus = append(surplus, kind+" "+key(object))
			}
		}
	}
	if len(surplus) > 0 {
		return fmt.Errorf("there are %v, want no workloads", surplus)
	}
	return nil
}

// events returns the events in the operator's namespace with the reason, all of them for "".
func (e *env) events(ctx context.Context, reason string) ([]corev1.Event, error) {
	all, err := e.kube.CoreV1().Events(operatorNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all.Items, func(event corev1.Event) bool { return reason != "" && event.Reason != reason }), nil
}

// hasEvent returns nil if there is an event with the reason.
func (e *env) hasEvent(reason string) error {
	events, err := e.events(e.ctx(), reason)
	if err == nil && len(events) == 0 {
		err = fmt.Errorf("there is no event %s", reason)
	}
	return err
}

// prometheusToken is that of the account that scrapes the operator in a cluster.
func (e *env) prometheusToken() (string, error) {
	if e.scraper != "" {
		return e.scraper, nil
	}
	const namespace, name = "openshift-monitoring", "prometheus-k8s"
	accounts := e.kube.CoreV1().ServiceAccounts(namespace)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(e.ctx(), account, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	token, err := accounts.CreateToken(e.ctx(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	e.scraper = token.Status.Token
	return e.scraper, nil
}

// scrape returns the operator's metrics in Prometheus' text format.
func (e *env) scrape() (string, error) {
	token, err := e.prometheusToken()
	if err != nil {
		return "", err
	}
	address, err := e.address()
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(e.ctx(), http.MethodGet, "https://"+address+"/metrics", nil)
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the operator's certificate is its own until the service CA gives one.
	}}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, response.Body); err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("scraping the operator: %s: %s", response.Status, body.String())
	}
	return body.String(), nil
}

// metric returns the sum of the samples of a metric whose labels contain all given texts, such as `service="Manila"`.
func (e *env) metric(name string, labels ...string) (float64, error) {
	text, err := e.scrape()
	if err != nil {
		return 0, err
	}
	return sample(text, name, labels...)
}

func sample(text, name string, labels ...string) (float64, error) {
	sum, found := 0.0, false
	for line := range strings.Lines(text) {
		sampleName, rest, ok := strings.Cut(strings.TrimSpace(line), "{")
		if !ok || sampleName != name {
			continue
		}
		set, value, ok := strings.Cut(rest, "} ")
		if !ok || slices.ContainsFunc(labels, func(label string) bool { return !strings.Contains(set, label) }) {
			continue
		}
		var number float64
		if _, err := fmt.Sscan(value, &number); err != nil {
			return 0, fmt.Errorf("reading metric %s: %w", line, err)
		}
		sum, found = sum+number, true
	}
	if !found {
		return 0, errors.New("there is no metric " + name + " with " + strings.Join(labels, ", "))
	}
	return sum, nil
}

// polls returns how often the operator has looked at the cloud since its start, whatever came of it.
func (e *env) polls() (float64, error) {
	return e.metric("openstack_csi_cloud_checks_total")
}

// awaitPolls waits for more looks at the cloud.
func (e *env) awaitPolls(n int) {
	e.t.Helper()
	first := -1.0
	e.eventually(soon+time.Duration(n)*2*time.Second, func() error {
		now, err := e.polls()
		if err != nil {
			return err
		}
		if first < 0 {
			first = now
		}
		if now-first < float64(n) {
			return fmt.Errorf("the operator has looked at the cloud %v times more, want %d", now-first, n)
		}
		return nil
	})
}
