package kubectl

import (
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Kubernetes adds fields that name a Secret.
func TestStatusNamesMissingSecretsOfEachFieldOfAVolume(t *testing.T) {
	t.Parallel()
	source, found := reflect.TypeFor[corev1.CSIPersistentVolumeSource](), 0
	for i := range source.NumField() {
		if source.Field(i).Type != reflect.TypeFor[*corev1.SecretReference]() {
			continue
		}
		found++
		v := &corev1.PersistentVolume{}
		v.Name, v.APIVersion, v.Kind = "moved", "v1", "PersistentVolume"
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "manila.csi.openstack.org"}
		ref := &corev1.SecretReference{Namespace: "earlier", Name: loginOfShares}
		reflect.ValueOf(v.Spec.CSI).Elem().Field(i).Set(reflect.ValueOf(ref))
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(v)
		assert.NilError(t, err)
		s := scenario{Objects: []unstructured.Unstructured{{Object: object}}}
		_, output, _ := run(t, s.options(t), false, "status")
		output = strings.Join(strings.Fields(output), " ")
		assert.Check(t, is.Contains(output, "Secret earlier/csi-manila-secrets does not exist, and 1 "+
			"PersistentVolumes name it"), source.Field(i).Name)

		hidden := s
		hidden.Forbidden = []string{"Secrets"}
		there := newObject("v1", "Secret", "earlier", loginOfShares, nil).(*unstructured.Unstructured)
		s.Objects = append(s.Objects, *there)
		for name, quiet := range map[string]scenario{"there": s, "hidden": hidden} {
			_, output, _ = run(t, quiet.options(t), false, "status")
			assert.Check(t, !strings.Contains(output, "earlier/"), "%s: %s", name, output)
		}
	}
	assert.Check(t, found >= 5, "the type has %d fields", found)
}
