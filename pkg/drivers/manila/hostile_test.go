package manila

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openshift/library-go/pkg/operator/events"
)

// messages returns the messages of the events with a reason.
func (b classBench) messages(t *testing.T, reason string) []string {
	t.Helper()
	recorder, ok := b.recorder.(events.InMemoryRecorder)
	assert.Assert(t, ok, "events go to a %T", b.recorder)
	var messages []string
	for _, event := range recorder.Events() {
		if event.Reason == reason {
			messages = append(messages, event.Message)
		}
	}
	return messages
}

// TestUnprintableTypesGetNoClass: no object contains a name that would break a terminal or a web
// page, and the other types get their classes.
func TestUnprintableTypesGetNoClass(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	b.list([]string{
		"gold", "new\nline", "nul\x00", "\x1b[31mred", "over\u202eride", "zero\u200bwidth",
		"soft\u00adhyphen", "Zürich/1 (größer)",
	})
	b.writes(t, "create storageclasses/"+hashedName("Zürich/1 (größer)"),
		"create storageclasses/csi-manila-gold")
	b.writes(t)
	told := b.messages(t, "ShareTypeIgnored")
	if len(told) != 1 || !strings.Contains(told[0], `"new\nline"`) ||
		!strings.HasSuffix(told[0], "and 1 more") {
		t.Fatalf("told %q, want one warning with the first types, quoted", told)
	}
	if strings.ContainsFunc(told[0], func(r rune) bool { return r < ' ' || r == '\u202e' }) {
		t.Errorf("the warning has characters that cannot be printed: %q", told[0])
	}
}

// TestCloudThatInventsTypes: however many types a cloud lists one after the other, the classes in
// the cluster stay bounded.
func TestCloudThatInventsTypes(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 999 {
		name := fmt.Sprintf("gone-%d", i)
		objects = append(objects, wanted(classNames().Plain(name), name))
	}
	objects = append(objects,
		&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}, Provisioner: "other"})
	b := newClassBench(t, objects...)
	b.list([]string{"gone-0", "new-a", "new-b", "new-c"})
	b.writes(t, "create storageclasses/csi-manila-new-a")
	b.writes(t)
	told := b.messages(t, "ShareTypeIgnored")
	want := `the driver has 1000 StorageClasses, and the operator creates no more, so 2 share types ` +
		`get none: "new-b", "new-c". Exclude share types in key operator.yaml of ConfigMap ` +
		`manila-csi-config, or delete StorageClasses that nobody uses`
	assert.Check(t, is.DeepEqual([]string{want}, told), "events")
}

// TestMessageOfManyFailures: a condition does not grow with the number of types.
func TestMessageOfManyFailures(t *testing.T) {
	t.Parallel()
	b := newClassBench(t)
	react := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("refused")
	}
	b.fake.Guest.PrependReactor("create", "storageclasses", react)
	var types []string
	for i := range 200 {
		types = append(types, fmt.Sprintf("type-%03d-%s", i, strings.Repeat("x", 200)))
	}
	b.list(types)
	_, err := b.run(t)
	if err == nil || len(err.Error()) > 5000 || !strings.HasSuffix(err.Error(), "and 195 more") {
		t.Errorf("got %v, want the first failures and their number", err)
	}
}
