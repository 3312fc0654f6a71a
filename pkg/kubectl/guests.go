package kubectl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

const (
	// guestTimeout is how long the state of one guest cluster may take.
	guestTimeout = 10 * time.Second
	// maxFinding limits the text of a finding in the list of all guests, in characters.
	maxFinding = 500
	// guestsAtOnce is the number of guest clusters that are read at the same time.
	guestsAtOnce = 8
	// maxKubeconfig is the maximum size of the kubeconfig of a guest cluster, in bytes.
	maxKubeconfig = 128 << 10
)

// Guests are the states of the guest clusters of a management cluster, the worst first. Its JSON is
// the output of `status --all-guests -o json`.
type Guests struct {
	Guests     []Guest  `json:"guests"`
	NotVisible []string `json:"notVisible,omitempty"`

	verbose bool
}

// Guest is the state of a guest cluster. Its name is the namespace and the name of the
// HostedControlPlane.
type Guest struct {
	Name string `json:"guest"`
	*Status
}

// showGuests prints the states of all guest clusters, in a session of the management cluster.
func (s *session) showGuests(ctx context.Context, args []string) error {
	chosen, err := new(cluster).choose(args) // guest clusters are OpenShift
	if err != nil {
		return err
	}
	planes := slices.DeleteFunc(s.guest.hostedControlPlanes(ctx, ""),
		func(plane unstructured.Unstructured) bool {
			platform, _, _ := unstructured.NestedString(plane.Object, "spec", "platform", "type")
			return cmp.Or(platform, "OpenStack") != "OpenStack"
		})
	if len(planes) == 0 {
		return cmp.Or(s.failed(), usage("there is no HostedControlPlane with platform OpenStack, or it "+
			"is not visible: use --all-guests with the kubeconfig of the management cluster"))
	}
	report := &Guests{Guests: make([]Guest, len(planes)), verbose: s.verbose}
	hidden := make([][]string, len(planes))
	var group errgroup.Group
	group.SetLimit(guestsAtOnce)
	for i, plane := range planes {
		group.Go(func() error {
			report.Guests[i], hidden[i] = s.readGuest(ctx, plane, chosen)
			return nil
		})
	}
	_ = group.Wait() // what fails is a finding
	report.NotVisible = slices.Compact(slices.Sorted(slices.Values(slices.Concat(hidden...))))
	order := append(diagnosis.Severities(), OK)
	slices.SortFunc(report.Guests, func(a, b Guest) int {
		return cmp.Or(cmp.Compare(slices.Index(order, stateOf(a)), slices.Index(order, stateOf(b))),
			cmp.Compare(a.Name, b.Name))
	})
	err = s.show("Guests", report, report.Guests[0].worst() != "")
	return cmp.Or(ctx.Err(), err)
}

// stateOf returns the severity of the first finding, OK if there is none.
func stateOf(g Guest) State {
	if len(g.Findings) == 0 {
		return OK
	}
	return g.Findings[0].Severity
}

// readGuest reads the state of a guest cluster, and also returns what may not be read.
func (s *session) readGuest(
	ctx context.Context, plane unstructured.Unstructured, chosen []driver,
) (Guest, []string) {
	ctx, cancel := context.WithTimeout(ctx, guestTimeout)
	defer cancel()
	o := *s.options
	o.hostedControl = plane.GetNamespace()
	there := &session{options: &o, systems: map[string]*system{}, management: &cluster{
		WithWatch: s.guest.WithWatch, of: " of the management cluster", hidden: map[string]bool{},
		logs: s.guest.logs,
	}}
	var report *Status
	config, err := guestConfig(ctx, s.guest, plane)
	if err == nil {
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{next} })
		if there.guest, err = o.dial(config, ""); err != nil {
			err = fmt.Errorf("using the kubeconfig that status.kubeConfig of the HostedControlPlane "+
				"names: %w", err)
		}
	}
	if err == nil {
		report, err = there.status(ctx, chosen)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("the guest cluster did not answer within %v", guestTimeout)
	}
	if err != nil {
		report = s.newStatus()
		report.find("", diagnosis.Finding{Severity: Problem, Type: "Guest", Message: err.Error()})
	}
	return Guest{plane.GetNamespace() + "/" + plane.GetName(), report}, there.notVisible()
}

// guestConfig reads the kubeconfig of a guest cluster. It uses only the server, CA, client
// certificate, key and token, so that nobody who can write it makes this machine run a program,
// read a file, or use a proxy.
func guestConfig(
	ctx context.Context, management *cluster, plane unstructured.Unstructured,
) (*rest.Config, error) {
	ref, _, _ := unstructured.NestedStringMap(plane.Object, "status", "kubeConfig")
	if ref["name"] == "" {
		return nil, errors.New("the HostedControlPlane does not name the Secret with its kubeconfig yet")
	}
	at := client.ObjectKey{Namespace: plane.GetNamespace(), Name: ref["name"]}
	secret := &corev1.Secret{}
	if err := management.Get(ctx, at, secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", at, err)
	}
	text := secret.Data[ref["key"]]
	if err := position.Fits(text, maxKubeconfig); err != nil {
		return nil, fmt.Errorf("key %s of Secret %s %w", ref["key"], at, err)
	}
	loaded, err := clientcmd.Load(text)
	if err != nil || len(text) == 0 { // the error may quote the Secret
		return nil, fmt.Errorf("Secret %s contains no kubeconfig in key %s", at, ref["key"])
	}
	current := ptr.Deref(loaded.Contexts[loaded.CurrentContext], clientcmdapi.Context{})
	server := ptr.Deref(loaded.Clusters[current.Cluster], clientcmdapi.Cluster{})
	user := ptr.Deref(loaded.AuthInfos[current.AuthInfo], clientcmdapi.AuthInfo{})
	if !strings.HasPrefix(server.Server, "https://") {
		return nil, fmt.Errorf("the kubeconfig in Secret %s has no server with https", at)
	}
	if user.Token == "" && (len(user.ClientCertificateData) == 0 || len(user.ClientKeyData) == 0) {
		return nil, fmt.Errorf("the kubeconfig in Secret %s contains neither a token nor a certificate "+
			"with its key; programs and files that it names are not used", at)
	}
	return &rest.Config{
		Host: server.Server, BearerToken: user.Token,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   server.CertificateAuthorityData,
			CertData: user.ClientCertificateData, KeyData: user.ClientKeyData,
		},
	}, nil
}

// maxResponse limits the responses of guest clusters, in bytes. 40,000 claims need about as much.
const maxResponse = 64 << 20

// bounded is the transport to a guest cluster. Its administrator must neither use all memory of the
// provider's machine, nor make it send requests, with the token, to another server.
type bounded struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 3 {
		return nil, errors.Join(errRedirected, response.Body.Close())
	}
	response.Body = &boundedBody{response.Body, maxResponse}
	return response, nil
}

var (
	errRedirected = errors.New("the API server of the guest cluster redirects the request, which is " +
		"not allowed")
	errTooLong = fmt.Errorf("the API server of the guest cluster sends more than %d MiB, the most "+
		"that this command reads", maxResponse>>20)
)

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errTooLong
	}
	return n, err
}

// write prints a line for each guest, with its first finding.
func (g *Guests) write(out io.Writer, p palette) {
	for _, one := range g.Guests {
		l := Link{State: stateOf(one), Text: one.Name}
		findings := joined(one.Findings)
		if len(findings) > 0 {
			l.Text += ": " + diagnosis.Ends(findings[0].String(), maxFinding)
			l.Runbook = findings[0].Runbook
		}
		if more := len(findings) - 1; more > 0 {
			l.Text += fmt.Sprintf(" (and %d more)", more)
		}
		p.link(out, l)
		if g.verbose {
			one.Status.write(out, p)
		}
	}
	writeNotVisible(out, g.NotVisible)
}
