package kubectl

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/test/broken"
)

// generatedAt is the time in the generated clusters, which is that of objects.yaml.
func generatedAt() time.Time { return time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC) }

// laboratory runs the question of generated situations.
type laboratory struct {
	types *runtime.Scheme
	// healthy are the objects of a healthy cluster, typed are the same with their Go types.
	healthy map[string]unstructured.Unstructured
	typed   map[string]client.Object
	// guest and management are the paths of kubeconfigs.
	guest, management string
}

func newLaboratory(t *testing.T) *laboratory {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	j := &laboratory{
		types: types, guest: kubeconfig(t),
		management: file(t, []byte(guestKubeconfig("https://management"))),
		healthy:    map[string]unstructured.Unstructured{}, typed: map[string]client.Object{},
	}
	var all []unstructured.Unstructured
	decode(t, "testdata/objects.yaml", &all)
	for _, u := range all {
		j.healthy[keyOf(u)], j.typed[keyOf(u)] = u, j.decoded(t, u)
	}
	return j
}

func keyOf(u unstructured.Unstructured) string {
	return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
}

func (j *laboratory) decoded(t *testing.T, u unstructured.Unstructured) client.Object {
	t.Helper()
	object, err := decoded(j.types, u)
	assert.NilError(t, err, keyOf(u))
	return object.(client.Object)
}

// isControlPlane returns whether HyperShift runs an object in the management cluster.
func isControlPlane(o client.Object) bool {
	switch o := o.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet:
		return strings.HasPrefix(o.GetNamespace(), "openshift-")
	case *corev1.Pod:
		return strings.Contains(o.Name, "-controller")
	case *coordinationv1.Lease:
		return strings.HasSuffix(o.Name, "-lock")
	}
	return false
}

// objects returns the objects of the guest cluster, which is the only one of a standalone cluster,
// and of the management cluster.
func (j *laboratory) objects(t *testing.T, s *broken.Situation) (here, there []client.Object) {
	t.Helper()
	known := maps.Clone(j.typed)
	maps.DeleteFunc(known, func(_ string, o client.Object) bool {
		return slices.Contains(s.Gone, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	})
	for _, u := range s.Objects {
		if base, ok := j.healthy[keyOf(u)]; ok {
			u.Object = merged(base.Object, u.Object).(map[string]any)
		}
		known[keyOf(u)] = j.decoded(t, u)
	}
	for _, o := range known {
		if s.Flavour != broken.Standalone && isControlPlane(o) {
			o = o.DeepCopyObject().(client.Object)
			o.SetNamespace(broken.ControlPlane)
			there = append(there, o)
		} else {
			if i, ok := o.(*configv1.Infrastructure); ok && s.Flavour != broken.Standalone {
				i = i.DeepCopy()
				i.Status.ControlPlaneTopology, o = configv1.ExternalTopologyMode, i
			}
			here = append(here, o)
		}
	}
	if s.Flavour != broken.Standalone {
		there = append(there, hosted("a", guestKubeconfig("https://a"))...)
	}
	return here, there
}

// ask returns the first line, all of the output, and the exit code.
func (j *laboratory) ask(t *testing.T, s *broken.Situation) (first, all string, code int) {
	t.Helper()
	o := newOptions()
	o.clock = clocktesting.NewFakePassiveClock(generatedAt())
	here, there := j.objects(t, s)
	o.connect = func(config *rest.Config) (client.WithWatch, error) {
		objects := here
		if config.Host == "https://management" {
			objects = there
		}
		return newFake(j.types).WithObjects(objects...).Build(), nil
	}
	args := append(slices.Clone(s.Args), "--kubeconfig="+j.guest)
	if s.Flavour == broken.Managed {
		args = append(args, "--management-kubeconfig="+j.management)
	}
	var out strings.Builder
	code = execute(t.Context(), o, args, Streams{Out: &out, Err: &out})
	var head []string
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "  ") {
			break
		}
		head = append(head, strings.Fields(line)...)
	}
	return strings.Join(head, " "), strings.Join(strings.Fields(out.String()), " "), code
}

// hostileWords are names that look like causes.
func hostileWords() []string {
	return []string{
		"quota", "401", "error", "denied", "in-use", "not-found", "timeout", "full", "rate-limit", "413",
		"forbidden", "no-space", "unauthorized", "aborted", "limit-exceeded", "detach", "policy",
	}
}

// renamed returns a first line with the names of another world, without ages.
func renamed(line string, from, to *broken.Situation) string {
	var pairs []string
	for _, role := range slices.SortedFunc(maps.Keys(from.Names), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(from.Names[b]), len(from.Names[a])), cmp.Compare(a, b))
	}) {
		pairs = append(pairs, from.Names[role], to.Names[role])
	}
	line = strings.NewReplacer(pairs...).Replace(line)
	return regexp.MustCompile(`\b(\d+[dhms])+\b`).ReplaceAllString(line, "AGE")
}

// isSame returns whether two first lines say the same. The order of names in a list follows the
// names. A text that is cut may end elsewhere if the names have other lengths.
func isSame(a, b string) bool {
	const cut = " … "
	if partsA, partsB := strings.Split(a, cut), strings.Split(b, cut); len(partsA) > 1 &&
		len(partsB) > 1 {
		endA, endB := partsA[len(partsA)-1], partsB[len(partsB)-1]
		return (strings.HasPrefix(partsA[0], partsB[0]) || strings.HasPrefix(partsB[0], partsA[0])) &&
			(strings.HasSuffix(endA, endB) || strings.HasSuffix(endB, endA))
	}
	sorted := func(line string) []string {
		words := strings.FieldsFunc(line, func(r rune) bool {
			return strings.ContainsRune(" ,.;:()/", r)
		})
		slices.Sort(words)
		return words
	}
	return slices.Equal(sorted(a), sorted(b))
}

// isWhole returns whether a line is cut only between words, and neither it nor what is before a cut
// ends within a quotation or within brackets.
func isWhole(line string) bool {
	for part := range strings.SplitSeq(line, " … ") {
		for _, pair := range []string{`""`, "()", "[]", "{}"} {
			begins, ends := strings.Count(part, pair[:1]), strings.Count(part, pair[1:])
			if begins > ends || pair[0] == pair[1] && begins%2 != 0 {
				return false
			}
		}
		if strings.Contains(part, "…") {
			return false
		}
	}
	return true
}

// The first line of each situation names the object, what stops it, where, and what to do next,
// because the generator knows what it has broken. Commands that it advises are about objects that
// exist. Names, sizes, ages, what followed the cause, and
// what is broken elsewhere do not change it.
func TestFirstLineOfGeneratedSituations(t *testing.T) {
	t.Parallel()
	const seed = 54
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // always the same
	words := hostileWords()
	random.Shuffle(len(words), func(i, k int) { words[i], words[k] = words[k], words[i] })
	quiet := broken.NewWorld(generatedAt())
	hostile, noisy := quiet, quiet
	hostile.Words, hostile.Size = words, 401
	noisy.Age, noisy.Noise, noisy.Aftermath = 2, true, true
	reversed := noisy
	reversed.Reversed = true
	var worlds [][]broken.Situation
	for _, w := range []broken.World{quiet, hostile, noisy, reversed} {
		all, err := broken.All(w)
		assert.NilError(t, err)
		worlds = append(worlds, all)
	}
	assert.Check(t, len(worlds[0]) >= 400, "%d situations", len(worlds[0]))
	j := newLaboratory(t)
	steps := map[string][]int{}
	for i := range worlds[0] {
		steps[worlds[0][i].Step()] = append(steps[worlds[0][i].Step()], i)
	}
	for step, of := range steps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			right := 0
			for _, i := range of {
				if j.try(t, worlds[0][i], worlds[1][i], worlds[2+i%2][i]) {
					right++
				}
			}
			t.Logf("%d of %d are right", right, len(of))
		})
	}
}

// try returns whether the first line of a situation is right, and the same in other worlds.
func (j *laboratory) try(t *testing.T, s broken.Situation, others ...broken.Situation) bool {
	t.Helper()
	first, output, code := j.ask(t, &s)
	lacking := s.Answer.Lacks(first, output)
	fits := utf8.RuneCountInString(first) <= maxSentence && isWhole(first)
	right := assert.Check(t, len(lacking) == 0 && code == exitFailed && fits,
		"%s\n$ %s\n%s\nlacks %q, exit code %d, %d characters", s.Name, strings.Join(s.Args, " "), first,
		lacking, code, utf8.RuneCountInString(first))
	for _, found := range regexp.MustCompile(`openstack-csi (why \w+/[\w.-]*\w( -n [\w-]+)?)`).
		FindAllStringSubmatch(output, -1) {
		next := s
		next.Args = strings.Fields(found[1])
		_, said, _ := j.ask(t, &next)
		exists := strings.Contains(found[1], "/NAME") || !strings.Contains(said, "not found")
		right = assert.Check(t, exists, "%s advises %s: %s", s.Name, found[1], said) && right
	}
	for _, other := range others {
		now, _, _ := j.ask(t, &other)
		same := isSame(renamed(now, &other, &other), renamed(first, &s, &other))
		right = assert.Check(t, same, "another answer: %s\n$ %s\n%s\n%s\n", other.Name,
			strings.Join(other.Args, " "), first, now) && right
	}
	return right
}
