package operator

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionslisters "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

const snapshotClasses = "volumesnapshotclasses.snapshot.storage.k8s.io"

func crd(
	conditions ...apiextensionsv1.CustomResourceDefinitionCondition,
) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{
			Name: snapshotClasses, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "big"}},
		},
		Spec:   apiextensionsv1.CustomResourceDefinitionSpec{Group: "snapshot.storage.k8s.io"},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: conditions},
	}
}

func isEstablished(
	status apiextensionsv1.ConditionStatus,
) apiextensionsv1.CustomResourceDefinitionCondition {
	return apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.Established, Status: status,
	}
}

func TestCRDCountsOnlyWhileItIsEstablished(t *testing.T) {
	t.Parallel()
	accepted := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue,
	}
	for name, tt := range map[string]struct {
		crd  *apiextensionsv1.CustomResourceDefinition
		want bool
	}{
		"none":             {nil, false},
		"new":              {crd(), false},
		"names accepted":   {crd(accepted), false},
		"not established":  {crd(accepted, isEstablished(apiextensionsv1.ConditionFalse)), false},
		"established":      {crd(accepted, isEstablished(apiextensionsv1.ConditionTrue)), true},
		"without a schema": {stripped(t, crd(isEstablished(apiextensionsv1.ConditionTrue))), true},
	} {
		store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
		if tt.crd != nil {
			if err := store.Add(tt.crd); err != nil {
				t.Fatal(err)
			}
		}
		lister := apiextensionslisters.NewCustomResourceDefinitionLister(store)
		if got := established(lister, snapshotClasses); got != tt.want {
			t.Errorf("%s: established is %v", name, got)
		}
	}
}

func stripped(
	t *testing.T, from *apiextensionsv1.CustomResourceDefinition,
) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	got, err := withoutSchema(from)
	if err != nil {
		t.Fatal(err)
	}
	return got.(*apiextensionsv1.CustomResourceDefinition)
}

func TestSchemaIsRemovedFromTheCache(t *testing.T) {
	t.Parallel()
	want := crd(isEstablished(apiextensionsv1.ConditionTrue))
	want.Spec, want.ManagedFields = apiextensionsv1.CustomResourceDefinitionSpec{}, nil
	diff := cmp.Diff(want, stripped(t, crd(isEstablished(apiextensionsv1.ConditionTrue))))
	if diff != "" {
		t.Errorf("CRD (-want +got):\n%s", diff)
	}
	tombstone := cache.DeletedFinalStateUnknown{Key: "a"}
	if got, err := withoutSchema(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("got %v, %v of a tombstone", got, err)
	}
}
