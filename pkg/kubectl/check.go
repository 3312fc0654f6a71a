package kubectl

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

type check struct {
	cloud

	file string
	// values means to print values of the chart for an installation of others.
	values bool
	// nodes means to check the nodes, with a pod of the image on each; clean only to delete the pods.
	nodes, clean bool
	image        string
}

func newCheckCommand(o *options) *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster, a clouds.yaml or a configuration is ready for an installation",
		Long: "Check whether a cluster is ready for an installation; after the installation the same " +
			"as status. With -f check a ManilaDriver, a CinderDriver or, for OpenShift, an operator.yaml. " +
			"This needs no cluster; with one, check also prints how StorageClasses would change. " +
			"docs/kubectl.md lists the permissions.",
		Example: "  kubectl openstack-csi check --clouds clouds.yaml\n" +
			"  kubectl openstack-csi check -f maniladriver.yaml\n" +
			"  kubectl openstack-csi check -f operator.yaml  # for OpenShift\n" +
			"  kubectl openstack-csi check --values > values.yaml  # from other charts",
		Args: atMost(0),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.clusterless = c.file != ""
		return o.run(c.run)(cmd, args)
	}
	o.addOutputTo(cmd)
	c.addTo(cmd)
	cmd.Flags().StringVarP(&c.file, "filename", "f", "",
		"A ManilaDriver or CinderDriver to check, values of the Helm chart, an operator.yaml of "+
			"OpenShift or its ConfigMap; - is the standard input.")
	cmd.Flags().BoolVar(&c.values, "values", false,
		"Print values of the Helm chart for an installation of the charts of cloud-provider-openstack, "+
			"or for a file with their values or a cloud.conf (-f). They contain the credentials.")
	cmd.Flags().BoolVar(&c.nodes, "nodes", false,
		"Check the nodes after the installation, with a privileged pod on each for a few seconds.")
	cmd.Flags().StringVar(&c.image, "image", "",
		"Image for --nodes. The default is that of the operator, which is not visible on HyperShift.")
	cmd.Flags().BoolVar(&c.clean, "clean", false,
		"With --nodes, only delete the pods of a check that was killed.")
	return cmd
}

func (c *check) run(ctx context.Context, s *session, _ []string) error {
	switch {
	case !c.nodes && (c.clean || c.image != ""), c.nodes && (c.values || c.file != ""):
		return usage("--clean and --image are for --nodes, which is neither for --values nor for -f")
	case c.nodes:
		return c.checkNodes(ctx, s)
	case c.values:
		return c.printValues(ctx, s)
	}
	if c.file != "" {
		return s.answer(c.file, c.checkFile(ctx, s))
	}
	links, err := c.offers(ctx, s.guest.onOpenShift())
	if err != nil {
		return err
	}
	report, err := s.status(ctx, s.guest.drivers())
	if err != nil {
		return err
	}
	if !report.absent {
		return s.checkAgain(ctx, links)
	}
	e := &Explanation{State: "ready for an installation"}
	if e.Chain = append(links, s.checkInstallation(ctx)...); causeOf(e.Chain) != nil {
		e.State = "not " + e.State
	} else if c.clouds == "" {
		e.State += " as far as Kubernetes knows. OpenStack was not asked"
	}
	return s.answer("the cluster", e)
}

// checkAgain prints the status after an installation, with what is wrong with the login, and what
// an upgrade of Kubernetes would stop.
func (s *session) checkAgain(ctx context.Context, cloud []Link) error {
	s.report("cloud", "Clouds", cloud)
	s.report("", "Volumes", append(s.openClasses(ctx), s.conflicts(ctx)...))
	found := s.replaceable(ctx)
	for _, n := range found {
		if n.served == n.name {
			s.report("", "OtherChart", []Link{n.link(false, s.cannotMove(ctx, n, found))})
		}
	}
	return s.showStatus(ctx, nil, repetition{})
}

// report adds to the status what is wrong, and prints the rest.
func (s *session) report(about, kind string, links []Link) {
	for _, l := range links {
		if l.State == OK || l.State == NotVisible {
			fmt.Fprintln(s.Err, wrap("", l.sentence(maxSentence), 0))
			continue
		}
		s.more = append(s.more, Finding{about, l.Detail, diagnosis.Finding{
			Severity: l.State, Type: kind, Message: l.Text, Next: l.Next,
		}})
	}
}

// cloud is OpenStack, to which the plugin sends requests only with the flag --clouds.
type cloud struct {
	clouds, cacert string

	// client is nil without the flag, and refused says why it cannot be used.
	client  *openstack.Client
	refused []Link
}

func (c *cloud) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.clouds, "clouds", "",
		"A clouds.yaml, with which this machine logs in to OpenStack.")
	cmd.Flags().StringVar(&c.cacert, "cacert", "", "File with the CA of the cloud.")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if c.cacert != "" && c.clouds == "" {
			return usage("--cacert is for the login with --clouds, which is missing")
		}
		return nil
	}
}

// readLogin reads the entry of a clouds.yaml as the operators do. It also returns the files.
func readLogin(path, cacert string) (*clouds.Login, map[string][]byte, error) {
	given := map[string][]byte{}
	for key, file := range map[string]string{cloudsKey: path, caKey: cacert} {
		if file == "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, nil, usageError{err}
		}
		given[key] = text
	}
	login, err := clouds.Content{
		Name: path, Data: map[string][]byte{cloudsKey: given[cloudsKey]},
		CA: string(given[caKey]), CAName: cacert, CAElsewhere: true,
	}.Login()
	if err != nil {
		return nil, nil, usageError{err}
	}
	return login, given, nil
}

// kindOfLogin says how a login proves who it is.
func kindOfLogin(l *clouds.Login) string {
	if l.UsesApplicationCredential() {
		return "application credential"
	}
	return "password"
}

// login logs in, and returns the answer of the identity service.
func (c *cloud) login(ctx context.Context) (Link, error) {
	login, _, err := readLogin(c.clouds, c.cacert)
	if err == nil && login.CA == "" && login.CAPath != "" {
		// A path in a clouds.yaml is one of this machine, unlike that in a Secret.
		login, _, err = readLogin(c.clouds, login.CAPath)
	}
	if err != nil {
		return Link{}, err
	}
	return c.accepts(ctx, login), nil
}

// accepts returns the answer of the identity service to a login of c.clouds.
func (c *cloud) accepts(ctx context.Context, login *clouds.Login) Link {
	words := strings.NewReplacer(openstack.TheSecret, c.clouds)
	c.client = openstack.NewClient(openstack.Fixed(openstack.Access{Login: login, Words: words}),
		openstack.NewBackoff(clock.RealClock{}))
	if err := c.client.Check(ctx); err != nil {
		return failure(err)
	}
	return linkf(OK, "OpenStack accepts the login of %s: entry %s, %s. This machine "+
		"sent it; nodes and pods may have another way to OpenStack", c.clouds, login.Entry,
		kindOfLogin(login))
}

// failure returns what OpenStack answers instead.
func failure(err error) Link { return linkf(Problem, "from this machine: %v", err) }

func (c *cloud) types(ctx context.Context, kind choice.Kind) ([]openstack.Type, error) {
	if kind == choice.Cinder {
		return c.client.VolumeTypes(ctx)
	}
	return c.client.ShareTypes(ctx)
}

// asSecret returns what the operators say about the files in a Secret: pods have no other file of
// this machine. Only on OpenShift the cluster may know the CA.
func (c *cloud) asSecret(onOpenShift bool) (links []Link) {
	login, given, err := readLogin(c.clouds, c.cacert)
	if err == nil {
		login, err = clouds.Content{
			Name: c.clouds, Data: given, CAElsewhere: onOpenShift, Fix: fmt.Sprintf("Add "+
				"--set-file=credentials.cacert=%[1]s to helm, or --from-file=cacert=%[1]s to kubectl create "+
				"secret; here add --cacert=%[1]s", printable(login.CAPath)),
		}.Login()
	}
	if err != nil {
		return only(Problem, "the operators refuse this file: %v", err)
	}
	for _, remark := range login.Remarks {
		links = append(links, linkf(Warning, "%s", remark))
	}
	return links
}

// offers returns whether OpenStack accepts the login, and what it offers to the drivers.
func (c *cloud) offers(ctx context.Context, onOpenShift bool) ([]Link, error) {
	if c.clouds == "" {
		return only(NotVisible, "OpenStack was not asked. With --clouds clouds.yaml, check also tests "+
			"the login, and what OpenStack offers"), nil
	}
	login, err := c.login(ctx)
	links := append([]Link{login}, c.asSecret(onOpenShift)...)
	if err != nil || login.State != OK {
		return links, err
	}
	links = append(links, c.rights(ctx)...)
	for _, d := range drivers() {
		types, err := c.types(ctx, d.kind)
		l := linkf(OK, "%s offers %d types to this project", d.title, len(types))
		switch {
		case openstack.ReasonOf(err) == openstack.NotOffered:
			l = linkf(Warning, "%v", err)
		case err != nil:
			l = failure(err)
		case len(types) == 0:
			l = linkf(Warning, "%s offers no types to this project", d.title)
		}
		links = append(links, l)
		if err == nil {
			left, _ := c.quotas(ctx, d)
			links = append(links, left...)
		}
	}
	return links, nil
}
