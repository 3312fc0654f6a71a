package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/guest"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// podCheck has the API server check the options of pods before any workload gets them. It sends
// requests when the options change, and each minute while they are refused.
type podCheck struct {
	workloads []podWorkload

	mu sync.Mutex
	// accepted are the last options that the API server has accepted, nil before the first, and
	// refused those that it has refused since then, at a time.
	accepted, refused *choice.Pods
	at                time.Time
}

// podWorkload is a workload whose pods have options.
type podWorkload struct {
	// part is the name of the options in choice.Pods.
	part string
	kube kubernetes.Interface
	// optional are the names of containers that the pods have at times.
	optional []string
	// dryRun has the API server validate the workload with options. It also returns those without.
	dryRun func(context.Context, *opv1.OperatorSpec, *choice.Config) (*corev1.PodTemplateSpec, error)
}

func (w podWorkload) options(pods *choice.Pods) choice.ControllerPods {
	all := ptr.Deref(pods, choice.Pods{})
	if w.part == "node" {
		return choice.ControllerPods{PodOptions: all.Node}
	}
	return all.Controller
}

// checkPods checks options that have changed. It returns an error if it does not know the result.
func (d *driver) checkPods(ctx context.Context) error {
	config, err := d.choices.Current()
	if err != nil {
		return nil // no workload changes
	}
	c, chosen := &d.pods, ptr.Deref(config, choice.Config{})
	wanted := &chosen.Pods
	c.mu.Lock()
	defer c.mu.Unlock()
	spec, _, _, err := d.cluster.Workloads(d.operator).GetOperatorState()
	var faults []choice.Fault
	switch {
	case reflect.DeepEqual(c.accepted, wanted), reflect.DeepEqual(*wanted, choice.Pods{}):
	case reflect.DeepEqual(c.refused, wanted) && d.clock.Since(c.at) < unsettledResync:
		return nil
	case err != nil || !guest.Managed(spec):
		return err
	default:
		if faults, err = d.askAboutPods(ctx, spec, config); err != nil {
			return fmt.Errorf("checking the options of the pods: %w", err)
		}
	}
	c.refused, c.at = nil, d.clock.Now()
	if len(faults) > 0 {
		c.refused = wanted
	} else {
		c.accepted = wanted
	}
	d.choices.Refuse(faults)
	return nil
}

// refuses returns whether options are refused, so that they must be checked again.
func (c *podCheck) refuses() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused != nil
}

// checkedChoices returns the choices with the last accepted options of pods.
func (d *driver) checkedChoices() (*choice.Config, error) {
	config, err := d.choices.Current()
	if err != nil || config == nil {
		return nil, err
	}
	d.pods.mu.Lock()
	defer d.pods.mu.Unlock()
	if d.pods.accepted == nil {
		return nil, fmt.Errorf("the workload stays unchanged while options of pods are refused: correct "+
			"%s", d.choices.Place())
	}
	checked := *config
	checked.Pods = *d.pods.accepted
	return &checked, nil
}

// askAboutPods returns the faults in the options that differ from the accepted ones.
func (d *driver) askAboutPods(
	ctx context.Context, spec *opv1.OperatorSpec, config *choice.Config,
) (faults []choice.Fault, err error) {
	known, wanted := map[string][]string{}, ptr.Deref(config, choice.Config{}).Pods
	add := func(errs ...error) {
		for _, err := range errs {
			faults = append(faults, choice.Fault{Problem: err.Error()})
		}
	}
	for _, w := range d.pods.workloads {
		options, at := w.options(&wanted), field.NewPath("pods", w.part)
		if reflect.DeepEqual(options, w.options(d.pods.accepted)) {
			continue
		}
		before, err := w.dryRun(ctx, spec, config)
		switch {
		case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
			add(refusals(err, at, before)...)
		case err != nil && !apierrors.IsBadRequest(err): // a webhook may not support dry runs
			return nil, err
		}
		if name := options.PriorityClassName; name != "" && d.lacksPriority(ctx, w.kube, name) {
			add(field.NotFound(at.Child("priorityClassName"), name))
		}
		add(overridden(at.Child("labels"), options.Labels, before.Labels)...)
		add(overridden(at.Child("annotations"), options.Annotations, before.Annotations)...)
		known[w.part] = append(known[w.part], w.optional...)
		for _, c := range slices.Concat(before.Spec.InitContainers, before.Spec.Containers) {
			known[w.part] = append(known[w.part], c.Name)
		}
	}
	for part, names := range known {
		slices.Sort(names)
		for name := range (podWorkload{part: part}).options(&wanted).Resources {
			if !slices.Contains(names, name) {
				add(fmt.Errorf("pods.%s.resources[%s]: there is no such container: use %s", part, name,
					strings.Join(slices.Compact(names), ", ")))
			}
		}
	}
	slices.SortFunc(faults, func(a, b choice.Fault) int { return cmp.Compare(a.Problem, b.Problem) })
	return slices.Compact(faults), nil
}

// lacksPriority returns whether a PriorityClass is known not to exist: only the admission of pods
// would refuse it. Roles that another operator writes may not permit the request.
func (d *driver) lacksPriority(ctx context.Context, kube kubernetes.Interface, name string) bool {
	allowed, err := d.cluster.Side(flavour.Guest).May(ctx, authorizationv1.ResourceAttributes{
		Verb: "get", Group: "scheduling.k8s.io", Resource: "priorityclasses", Name: name,
	})
	if err != nil || !allowed {
		return false
	}
	_, err = kube.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// overridden returns the errors about labels or annotations that the operator sets.
func overridden(at *field.Path, chosen, own map[string]string) (errs []error) {
	for key := range chosen {
		if value, found := own[key]; found && value != chosen[key] {
			errs = append(errs, field.Forbidden(at.Key(key), "use another key: the operator sets this one"))
		}
	}
	return errs
}

// refusals returns what the API server says about a workload, with the fields of the options.
func refusals(err error, at *field.Path, pods *corev1.PodTemplateSpec) (errs []error) {
	status, _ := errors.AsType[*apierrors.StatusError](err)
	template := regexp.MustCompile(`^spec\.(template\.(spec\.)?)?`)
	container := regexp.MustCompile(`^((?:initC|c)ontainers)\[(\d+)\]\.resources`)
	for _, cause := range ptr.Deref(status.ErrStatus.Details, metav1.StatusDetails{}).Causes {
		name := template.ReplaceAllString(cause.Field, "")
		if match := container.FindStringSubmatch(name); match != nil {
			of := pods.Spec.Containers
			if match[1] == "initContainers" {
				of = pods.Spec.InitContainers
			}
			// A webhook may have added containers.
			if index, _ := strconv.Atoi(match[2]); index < len(of) {
				name = "resources[" + of[index].Name + "]" + name[len(match[0]):]
			}
		}
		errs = append(errs, fmt.Errorf("%s.%s: %s", at, name, cause.Message))
	}
	if errs == nil {
		errs = []error{fmt.Errorf("%s: %w", at, err)}
	}
	return errs
}

// addController adds the Deployment of an asset to the check. The hooks do not contain the options.
func (d *driver) addController(
	asset string, hooks []hook.Workload, deployed func() *appsv1.Deployment,
) {
	manifest, _ := d.bundle.Find(asset)
	kube := d.cluster.Side(flavour.ControlPlane).Kube
	changes, _ := hook.DeploymentHooks(hooks)
	d.addPods(asset, podWorkload{part: "controller", kube: kube, dryRun: func(
		ctx context.Context, spec *opv1.OperatorSpec, config *choice.Config,
	) (*corev1.PodTemplateSpec, error) {
		built, err := hook.Built(d.cluster, spec, manifest.Data, changes)
		if err != nil {
			return nil, err
		}
		before := built.Spec.Template.DeepCopy()
		config.ApplyToController(built)
		client := kube.AppsV1().Deployments(built.Namespace)
		name := d.cluster.Name(flavour.ControlPlane, "Deployment", built.Namespace, built.Name)
		return before, dryRun(ctx, client, name, deployed() != nil, built)
	}})
}

// addNodes adds the DaemonSet of an asset to the check, likewise.
func (d *driver) addNodes(
	asset string, hooks []hook.Workload, deployed func() *appsv1.DaemonSet,
) {
	manifest, _ := d.bundle.Find(asset)
	kube := d.cluster.Side(flavour.Guest).Kube
	changes, _ := hook.DaemonSetHooks(hooks)
	d.addPods(asset, podWorkload{part: "node", kube: kube, dryRun: func(
		ctx context.Context, spec *opv1.OperatorSpec, config *choice.Config,
	) (*corev1.PodTemplateSpec, error) {
		built, err := hook.Built(d.cluster, spec, manifest.Data, changes)
		if err != nil {
			return nil, err
		}
		before := built.Spec.Template.DeepCopy()
		config.ApplyToNodes(&built.Spec.Template)
		client := kube.AppsV1().DaemonSets(built.Namespace)
		name := d.cluster.Name(flavour.Guest, "DaemonSet", built.Namespace, built.Name)
		return before, dryRun(ctx, client, name, deployed() != nil, built)
	}})
}

// writer sends the requests that write a kind of workload.
type writer[T any] interface {
	Create(context.Context, *T, metav1.CreateOptions) (*T, error)
	Update(context.Context, *T, metav1.UpdateOptions) (*T, error)
}

// dryRun has the API server validate a workload as it would at its write. Admission does not name
// it.
func dryRun[T any](
	ctx context.Context, to writer[T], name string, exists bool, workload *T,
) (err error) {
	all := []string{metav1.DryRunAll}
	if exists {
		_, err = to.Update(ctx, workload, metav1.UpdateOptions{DryRun: all})
	} else {
		_, err = to.Create(ctx, workload, metav1.CreateOptions{DryRun: all})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// addPods adds a workload with the containers that CSI-Addons adds to it.
func (d *driver) addPods(asset string, w podWorkload) {
	if d.csiAddons != nil {
		patch, _ := d.csiAddons.bundle.Find(asset)
		var content struct {
			Spec struct {
				Template struct {
					Spec struct{ Containers []struct{ Name string } }
				}
			}
		}
		_ = yaml.Unmarshal(patch.Data, &content) // a generated file
		for _, c := range content.Spec.Template.Spec.Containers {
			w.optional = append(w.optional, c.Name)
		}
	}
	d.pods.workloads = append(d.pods.workloads, w)
}
