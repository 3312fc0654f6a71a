package kubectl

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

const (
	// The Secret that the cloud credential operator copies to the Secrets of the drivers.
	rootNamespace, rootSecret = "kube-system", "openstack-credentials"
	// backupSecret contains the credentials from before a rotation, and the state that is needed to
	// continue the rotation.
	backupSecret = "openstack-credentials-before-rotation"
	// requestAnnotation is an annotation of the copies of the cloud credential operator.
	requestAnnotation = "cloudcredential.openshift.io/credentials-request"
	// rootCA is the only path of a CA that the cloud credential operator does not replace.
	rootCA = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"

	cloudsKey, confKey, caKey = "clouds.yaml", "clouds.conf", "cacert"

	nothingChanged = "Nothing was changed"
)

// rotation changes the credentials of the drivers.
type rotation struct {
	*session

	conf, cacert string
	undo, dryRun bool

	// given is the content of the files, login what clouds.yaml contains.
	given map[string][]byte
	login *clouds.Login
	// sources are the Secrets to change: the root Secret, or those of the drivers.
	sources []*corev1.Secret
	isRoot  bool
	changes []change
	backup  *corev1.Secret
	// workloads list the credentials of a driver.
	workloads []followed
	// follows is true if there is a driver or a workload with the credentials.
	follows bool
	// obstacles are the messages that explain printed last, by driver and condition.
	obstacles map[string]string
}

func newRotateCommand(o *options) *cobra.Command {
	r := &rotation{obstacles: map[string]string{}}
	cmd := &cobra.Command{
		Use:   "rotate CLOUDS_YAML | rotate --undo",
		Short: "Write new credentials into the cluster, and wait until the drivers run with them",
		Long: "Write new credentials into the cluster, and wait until the drivers run with them. Run " +
			"it again with the same file to continue, or with --undo to go back. docs/kubectl.md lists " +
			"the permissions.",
		Args: func(cmd *cobra.Command, args []string) error {
			if r.undo == (len(args) == 1) || r.undo && (r.conf != "" || r.cacert != "") {
				return usage("name either a file with the new credentials, or --undo")
			}
			return atMost(1)(cmd, args)
		},
		RunE: o.run(func(ctx context.Context, s *session, args []string) error {
			r.session, s.again = s, "with the same file to continue, or with --undo to go back"
			return r.run(ctx, args)
		}),
	}
	addTimeoutTo(cmd.Flags(), time.Hour)
	cmd.Flags().StringVar(&r.conf, "clouds-conf", "",
		"File with the same credentials as ini, if the root Secret contains clouds.conf.")
	cmd.Flags().StringVar(&r.cacert, "cacert", "",
		"File with the CA of the cloud, on Kubernetes without OpenShift.")
	cmd.Flags().BoolVar(&r.undo, "undo", false, "Restore the credentials from before the rotation.")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "Print what would change, log in with the new "+
		"credentials, and change nothing.")
	return cmd
}

func (r *rotation) run(ctx context.Context, args []string) error {
	if err := r.prepare(ctx, args); err != nil {
		return fmt.Errorf("%w. %s", err, nothingChanged)
	}
	if r.dryRun {
		defer fmt.Fprintln(r.Out, nothingChanged)
		return r.tryLogin(ctx, args)
	}
	if err := r.write(ctx); err != nil {
		return err
	}
	for _, d := range r.guest.drivers() {
		if err := r.followLogin(ctx, d); err != nil {
			return err
		}
	}
	if err := r.followAll(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "The drivers run with these credentials. Delete Secret %s in %s when you no "+
		"longer need the previous ones\n", backupSecret, rootNamespace)
	return r.finish(ctx)
}

func (r *rotation) prepare(ctx context.Context, args []string) error {
	if !r.undo {
		if err := r.readFiles(args[0]); err != nil {
			return err
		}
	}
	if err := r.findSources(ctx); err != nil {
		return err
	}
	if err := r.findWorkloads(ctx); err != nil {
		return err
	}
	r.undo = r.undo || r.returns()
	if r.undo && !exists(r.backup) {
		return fmt.Errorf("there is nothing to go back to: Secret %s/%s is missing",
			rootNamespace, backupSecret)
	}
	for _, source := range r.sources {
		if err := r.check(ctx, source); err != nil {
			return err
		}
	}
	return r.findChanges()
}

// check returns an error if others would overwrite the Secret, or could not read it.
func (r *rotation) check(ctx context.Context, source *corev1.Secret) error {
	name := source.Namespace + "/" + source.Name
	by, next, err := r.restorer(ctx, source)
	if err != nil {
		return fmt.Errorf("whether Helm would restore Secret %s is unknown: %w", name, err)
	}
	if by != "" {
		return fmt.Errorf("%s manages Secret %s, and would restore its content: %s", by, name, next)
	}
	if r.undo {
		return nil
	}
	needed := clouds.DefaultEntry
	if present, err := (clouds.Content{Data: source.Data, CAElsewhere: true}).Login(); err == nil {
		needed = present.Entry
	}
	if entry := r.login.Entry; entry != clouds.DefaultEntry && entry != needed {
		return usage("clouds.yaml has only the entry %s, but those who read Secret %s need %s: rename it",
			printable(entry), name, printable(needed))
	}
	if file := r.login.CAPath; !r.isRoot && !r.guest.onOpenShift() && r.cacert == "" {
		_, err := clouds.Content{
			Name: "clouds.yaml", Data: map[string][]byte{cloudsKey: r.given[cloudsKey]},
			Fix: "Add --cacert=" + printable(file) + ": the Secret gets its content",
		}.Login()
		if err != nil {
			return usageError{err}
		}
	}
	if !r.isRoot {
		return nil
	}
	if r.cacert != "" {
		return usage("--cacert: the cloud credential operator does not copy it")
	}
	if file := r.login.CAPath; file != "" && file != rootCA {
		return usage("clouds.yaml contains a cacert that the cloud credential operator would replace. "+
			"Change it to %q, or remove it if the cloud needs no CA", "cacert: "+rootCA)
	}
	if _, given := r.given[confKey]; !given && len(source.Data[confKey]) > 0 {
		fmt.Fprintf(r.Err, "Warning: Secret %s contains the previous credentials in %s as well, "+
			"which stay without --clouds-conf\n", name, confKey)
	}
	return nil
}

func (r *rotation) readFiles(name string) error {
	var err error
	if r.login, r.given, err = readLogin(name, r.cacert); err != nil {
		return err
	}
	if r.conf != "" {
		if r.given[confKey], err = os.ReadFile(r.conf); err != nil {
			return usageError{err}
		}
		if !regexp.MustCompile(`(?m)^\[`).Match(r.given[confKey]) {
			return usage("%s is not an ini file", r.conf)
		}
	}
	fmt.Fprintf(r.Out, "%s: entry %s, %s\n", name, printable(r.login.Entry), kindOfLogin(r.login))
	return nil
}

// findSources reads the Secrets to change, and the backup.
func (r *rotation) findSources(ctx context.Context) error {
	infrastructure := &configv1.Infrastructure{}
	err := r.guest.Get(ctx, client.ObjectKey{Name: "cluster"}, infrastructure)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("whether this is a guest cluster is unknown: %w", err)
	}
	if infrastructure.Status.ControlPlaneTopology == configv1.ExternalTopologyMode {
		secret, err := r.hostedSecret(ctx)
		if err != nil {
			return err
		}
		return fmt.Errorf("the credentials of a guest cluster are in the management cluster, in %s: "+
			"follow \"HyperShift\" in docs/credential-rotation.md", secret)
	}
	root := &corev1.Secret{}
	if r.guest.onOpenShift() { // elsewhere it belongs to another program, or is the driver Secret
		if root, err = r.secret(ctx, rootNamespace, rootSecret); err != nil {
			return err
		}
	}
	if len(root.Data[cloudsKey]) > 0 {
		r.sources, r.isRoot = []*corev1.Secret{root}, true
	} else if err := r.findDriverSecrets(ctx); err != nil {
		return err
	}
	r.backup, err = r.secret(ctx, rootNamespace, backupSecret)
	return err
}

// findDriverSecrets finds the Secrets of the drivers that nobody maintains.
func (r *rotation) findDriverSecrets(ctx context.Context) error {
	var missing []string
	for _, d := range r.guest.drivers() {
		for _, namespace := range slices.Compact([]string{d.operatorIn, d.namespace}) {
			secret, err := r.secret(ctx, namespace, d.credentials)
			if err != nil {
				return err
			}
			if len(secret.Data[cloudsKey]) == 0 {
				missing = append(missing, namespace+"/"+d.credentials)
				continue
			}
			if r.guest.onOpenShift() && len(secret.OwnerReferences) > 0 ||
				secret.Annotations[requestAnnotation] != "" {
				return fmt.Errorf("Secret %s/%s belongs to the cloud credential operator, but Secret %s/%s is "+
					"missing: in manual mode follow docs/credential-rotation.md", namespace, d.credentials,
					rootNamespace, rootSecret)
			}
			both := func(s *corev1.Secret) bool {
				return s.Namespace == namespace && s.Name == d.credentials
			}
			if !slices.ContainsFunc(r.sources, both) {
				r.sources = append(r.sources, secret)
			}
		}
	}
	if len(r.sources) == 0 {
		return fmt.Errorf("there are no credentials: %s is missing in Secret %s", cloudsKey,
			strings.Join(slices.Compact(missing), " and "))
	}
	return nil
}
