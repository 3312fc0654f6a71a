package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	standard          = "standard-csi"
	defaultAnnotation = "storageclass.kubernetes.io/is-default-class"
)

// classFixture is the controller of Cinder's StorageClass and a cluster with StorageClasses.
type classFixture struct {
	*clustertest.Fake
	run func() error
}

func newClassFixture(
	t *testing.T, state opv1.StorageClassStateName, classes ...runtime.Object,
) *classFixture {
	t.Helper()
	b := &classFixture{Fake: clustertest.New(t, clustertest.Seed{
		ClusterCSIDriver: withClasses(opv1.Managed, state), Guest: classes,
	})}
	p := cinderPlugin()
	p.Setup = setUpChoices
	d := assembledIn(t, b.Fake, p)[0]
	b.run = syncer(t, d, d.storageClass)
	b.Start(t)
	return b
}

func withClasses(
	management opv1.ManagementState, state opv1.StorageClassStateName,
) *opv1.ClusterCSIDriver {
	return &opv1.ClusterCSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: string(opv1.CinderCSIDriver)},
		Spec: opv1.ClusterCSIDriverSpec{
			OperatorSpec: opv1.OperatorSpec{ManagementState: management}, StorageClassState: state,
		},
	}
}

// sync runs the controller once, waits until the cache contains the writes, and returns them.
func (b *classFixture) sync(t *testing.T) []string {
	t.Helper()
	assert.NilError(t, b.run())
	writes := clustertest.Writes(b.Guest)
	b.StorageClasses(t)
	return writes
}

// find returns a StorageClass, or nil.
func (b *classFixture) find(t *testing.T, name string) *storagev1.StorageClass {
	t.Helper()
	for _, class := range b.StorageClasses(t) {
		if class.Name == name {
			return class
		}
	}
	return nil
}

// class returns a StorageClass of an older release or another provisioner; isDefault may be "".
func class(name, isDefault string) *storagev1.StorageClass {
	ret := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Provisioner: "other.example",
	}
	if isDefault != "" {
		ret.Annotations = map[string]string{defaultAnnotation: isDefault}
	}
	return ret
}

// own returns the StorageClass among the driver's assets.
func own(t *testing.T, isDefault string) *storagev1.StorageClass {
	t.Helper()
	b := newClassFixture(t, opv1.ManagedStorageClass)
	b.sync(t)
	ret := b.find(t, standard)
	ret.ResourceVersion, ret.Annotations = "1", class("", isDefault).Annotations
	return ret
}

func TestStorageClassStateIsHonoured(t *testing.T) {
	t.Parallel()
	const created, deleted = "create storageclasses/standard-csi", "delete storageclasses/standard-csi"
	b := newClassFixture(t, opv1.UnmanagedStorageClass)
	for i, step := range []struct {
		management opv1.ManagementState
		state      opv1.StorageClassStateName
		want       []string
	}{
		{opv1.Managed, opv1.UnmanagedStorageClass, nil},
		{opv1.Managed, opv1.RemovedStorageClass, nil},
		{opv1.Unmanaged, opv1.ManagedStorageClass, nil},
		{opv1.Managed, opv1.ManagedStorageClass, []string{created}},
		{opv1.Managed, opv1.ManagedStorageClass, nil},
		{opv1.Managed, opv1.UnmanagedStorageClass, nil},
		{opv1.Unmanaged, opv1.RemovedStorageClass, nil},
		{opv1.Removed, opv1.RemovedStorageClass, nil},
		{opv1.Managed, opv1.RemovedStorageClass, []string{deleted}},
		{opv1.Managed, "", []string{created}},
	} {
		b.State.Set(t, withClasses(step.management, step.state))
		assert.Check(t, is.DeepEqual(step.want, b.sync(t)), "writes of step %d", i)
	}
	b.State.Set(t, withClasses(opv1.Managed, "Sometimes"))
	assert.Check(t, is.ErrorContains(b.run(), `is "Sometimes": set it to Managed`))
}

func TestOnlyRemovalIsHonouredWithInvalidChoices(t *testing.T) {
	t.Parallel()
	b := newClassFixture(t, opv1.ManagedStorageClass, class(standard, ""), choices("type: {}\n"))
	assert.Check(t, is.Len(b.sync(t), 0), "writes")
	b.State.Set(t, withClasses(opv1.Managed, opv1.RemovedStorageClass))
	want := []string{"delete storageclasses/" + standard}
	assert.Check(t, is.DeepEqual(want, b.sync(t)), "writes")
}

func TestDefaultClassOfTheAdministratorIsPreserved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		classes []runtime.Object
		want    string
	}{
		"the only one":            {nil, "true"},
		"beside one that is none": {[]runtime.Object{class("other", "false")}, "true"},
		"beside a default":        {[]runtime.Object{class("other", "true")}, "false"},
		"given up":                {[]runtime.Object{own(t, "false")}, "false"},
		"given up for another":    {[]runtime.Object{own(t, "false"), class("other", "true")}, "false"},
		"two defaults, as chosen": {[]runtime.Object{own(t, "true"), class("other", "true")}, "true"},
		"removed":                 {[]runtime.Object{own(t, "")}, "true"},
		"removed for another":     {[]runtime.Object{own(t, ""), class("other", "true")}, "false"},
	} {
		b := newClassFixture(t, opv1.ManagedStorageClass, test.classes...)
		for range 2 {
			b.sync(t)
			assert.Check(t, is.Equal(b.find(t, standard).Annotations[defaultAnnotation], test.want), name)
		}
		assert.Check(t, b.find(t, "other") == nil || len(clustertest.Writes(b.Guest)) == 0,
			"another's StorageClass was written, %s", name)
	}
}

func TestDefaultClassIsPreservedWhileTheCacheIsOld(t *testing.T) {
	t.Parallel()
	b := newClassFixture(t, opv1.ManagedStorageClass, own(t, "true"))
	b.sync(t)
	chosen := own(t, "false")
	chosen.ResourceVersion = "2"
	clustertest.Put(t, b.Guest, chosen)
	// The cache may contain either version.
	assert.Check(t, b.run(), "an edit that the cache does not contain is a failure")
	assert.Check(t, is.Equal(b.find(t, standard).Annotations[defaultAnnotation], "false"))
}
