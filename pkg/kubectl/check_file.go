package kubectl

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/assets"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// checkFile checks a file as the operators, the API server and Helm do. With a cluster it also
// compares the StorageClasses.
func (c *check) checkFile(ctx context.Context, s *session) *Explanation {
	text, err := c.read(s.In)
	if err != nil {
		s.err = usageError{err}
		return nil
	}
	in := contentsOf(c.file, text)
	configs, faults, err := in.check()
	if s.err = err; err != nil {
		return nil
	}
	e := &Explanation{}
	for _, note := range in.notes {
		e.Chain = append(e.Chain, linkf(OK, "%s", note))
	}
	if len(faults) > 0 { // they do not wait for a cluster that does not answer
		e.State, e.Chain = "invalid", append(in.problems(faults), e.Chain...)
		return e
	}
	if s.guest != nil {
		s.guest.recognize(ctx)
	}
	var valid []string
	hasPods := false
	for i, part := range in.documents {
		hasPods = hasPods || part.fields != nil && !reflect.ValueOf(configs[i].Pods).IsZero()
		if !part.isShared {
			valid = append(valid, "a valid "+part.kind.In(part.fields != nil))
			c.compareTo(ctx, s, part.kind, configs[i], e)
		}
	}
	e.State = cmp.Or(strings.Join(valid, " and "), "valid")
	if hasPods {
		e.Chain = append(e.Chain, linkf(NotVisible, "the operator has the API server check "+
			"spec.pods, and reports mistakes in its status"))
	}
	return e
}

// problems returns the mistakes in the order of their lines.
func (c *fileContents) problems(faults []choice.Fault) (found []Link) {
	slices.SortStableFunc(faults, func(a, b choice.Fault) int { // the schema has no order
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Problem, b.Problem))
	})
	for _, f := range faults {
		found = append(found, linkf(Problem, "%s: %s", c.place(f.Line), f.Problem))
	}
	return found
}

func (c *check) read(in io.Reader) ([]byte, error) {
	if c.file == "-" {
		return io.ReadAll(io.LimitReader(in, maxFile+1))
	}
	return os.ReadFile(c.file)
}

// compareTo adds how the StorageClasses would change.
func (c *check) compareTo(
	ctx context.Context, s *session, kind choice.Kind, config *choice.Config, e *Explanation,
) {
	to := &comparison{Names: classes.NamesOf(kind, ""), config: config}
	if s.guest == nil {
		to.add(NotVisible, "the StorageClasses: there is no kubeconfig")
	} else {
		to = c.compare(ctx, s, *s.guest.driverIf(func(d driver) bool { return d.kind == kind }), config)
	}
	for _, text := range to.Unused(config, to.offered) {
		e.Chain = append(e.Chain, linkf(Warning, "%s", text))
	}
	e.Chain, e.Diff = append(e.Chain, to.links...), e.Diff+to.diff
}

// comparison is the difference between the StorageClasses of a cluster and what an operator writes.
type comparison struct {
	classes.Names

	config   *choice.Config
	existing map[string]*storagev1.StorageClass
	offered  map[string]openstack.Type // nil if unknown
	links    []Link
	diff     string

	created, changed, same int
}

func (c *comparison) add(state State, format string, args ...any) {
	c.links = append(c.links, linkf(state, format, args...))
}

func (c *check) compare(
	ctx context.Context, s *session, d driver, config *choice.Config,
) *comparison {
	existing := list[storagev1.StorageClassList](ctx, s.guest).Items
	spec := s.object(ctx, d)
	to := &comparison{Names: classes.NamesOf(d.kind, d.name), config: config}
	if !s.guest.onOpenShift() {
		to.Place = "the spec of " + s.guest.nameOf(d)
	}
	switch {
	case s.failed() != nil:
		return to
	case s.guest.hidden["StorageClasses"]:
		to.add(NotVisible, "the StorageClasses")
		return to
	case spec != nil && cmp.Or(spec.Spec.StorageClassState, opv1.ManagedStorageClass) !=
		opv1.ManagedStorageClass:
		to.add(Warning, "storageClassState of %s is %s, so the operator writes no StorageClass",
			s.guest.nameOf(d), spec.Spec.StorageClassState)
		return to
	}
	var all []*storagev1.StorageClass
	for i := range existing {
		all = append(all, &existing[i])
	}
	to.existing = classes.ByName(all)
	types, err := c.typesFor(ctx, d.kind, to)
	if s.err = err; err != nil || types == nil {
		return to
	}
	s.err = to.compareFixed(d)
	if d.kind == choice.Manila && config != nil && config.Topology == choice.Auto {
		to.add(NotVisible, "topology: Auto: the operator compares the zones; if they agree, new "+
			"StorageClasses also get autoTopology and WaitForFirstConsumer")
	}
	to.compareTypes(d, to.Wanted(config, types, to.Of(slices.Collect(maps.Keys(types)), to.existing)))
	to.add(OK, "StorageClasses: %d created, %d changed, %d as they are", to.created,
		to.changed, to.same)
	return to
}

// compareFixed adds the difference of the StorageClass among the assets of a driver, if any.
func (c *comparison) compareFixed(d driver) error {
	text, err := fs.ReadFile(assets.Installations(),
		"drivers/"+strings.ToLower(d.title)+"/generated/standalone/storageclass.yaml")
	class := &storagev1.StorageClass{}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, yaml.Unmarshal(text, class)); err != nil {
		return err
	}
	for name, other := range c.existing { // a new class is no second default
		if name != class.Name && other.Annotations[choice.DefaultAnnotation] == "true" {
			class.Annotations[choice.DefaultAnnotation] = "false"
		}
	}
	c.config.ClassOf("").Apply(class)
	c.compare(class)
	return nil
}

func (c *comparison) compareTypes(d driver, wanted []classes.Class) {
	for _, w := range wanted {
		existing := c.existing[w.Name]
		if taken := c.Taken(w, existing); taken != "" {
			c.add(Warning, "%s", taken)
			continue
		}
		if _, fault := c.Fault(w, existing); fault != "" {
			c.add(Warning, "%s", fault)
			if existing == nil {
				continue
			}
		}
		class := c.OfVolumes(w)
		if d.kind == choice.Manila {
			class = c.OfShares(w, d.namespace, d.loginSecret)
			w.SetTopology(class, existing, c.config != nil && c.config.Topology == choice.Enabled)
		}
		w.Keep(class, existing)
		c.compare(class)
	}
}

// typesFor returns the types of OpenStack, or without a login those of the existing StorageClasses;
// nil if OpenStack does not list them.
func (c *check) typesFor(
	ctx context.Context, kind choice.Kind, to *comparison,
) (map[string]openstack.Type, error) {
	types := map[string]openstack.Type{}
	if c.clouds == "" {
		to.add(OK, "the %ss are those of the existing StorageClasses; with --clouds they are "+
			"those that OpenStack lists", to.Noun)
		for _, class := range to.existing {
			name := class.Parameters[classes.TypeParameter]
			if name != "" && to.IsClassOf(class, name) {
				network := class.Parameters[classes.NetworkParameter] != ""
				types[name] = openstack.Type{Name: name, NeedsNetwork: network}
			}
		}
		return types, nil
	}
	login, err := c.login(ctx)
	if to.links = append(to.links, login); err != nil || login.State != OK {
		return nil, err
	}
	listed, err := c.types(ctx, kind)
	if err != nil {
		to.links = append(to.links, failure(err))
		return nil, nil
	}
	for _, t := range listed {
		types[t.Name] = t
	}
	to.offered = types
	return types, nil
}

func (c *comparison) compare(required *storagev1.StorageClass) {
	c.config.MarkDefault(required)
	before, existing := "", c.existing[required.Name]
	if existing != nil {
		before, required = manifest(existing), classes.Merge(existing, required, c.config.OwnsDefault())
	}
	after := manifest(required)
	switch before {
	case after:
		c.same++
		return
	case "":
		c.created++
	default:
		c.changed++
	}
	// Writing to memory cannot fail.
	text, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: slices.Collect(strings.Lines(before)), B: slices.Collect(strings.Lines(after)), Context: 3,
		FromFile: "StorageClass/" + required.Name, ToFile: "StorageClass/" + required.Name + " (new)",
	})
	c.diff += text
}

// manifest returns what the operator decides about a StorageClass.
func manifest(class *storagev1.StorageClass) string {
	shown := class.DeepCopy()
	shown.TypeMeta = metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}
	shown.ObjectMeta = metav1.ObjectMeta{
		Name: class.Name, Labels: class.Labels, Annotations: class.Annotations,
	}
	text, _ := yaml.Marshal(shown) // a typed object cannot fail
	return string(text)
}
