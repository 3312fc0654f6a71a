package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

// newKinds returns a strict decoder of every kind that an asset may have. A driver that needs another kind adds it here.
func newKinds() (runtime.Decoder, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		storagev1.AddToScheme, snapshotv1.AddToScheme, addServiceMonitor,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("collecting the kinds of assets: %w", err)
		}
	}
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	return serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme, scheme, options), nil
}

// change gives an asset what a layer makes of it, and decodes the result into the type of its kind. A fault is the
// layer's: before, there was none. The faults of an asset are reported once, not again by each layer that follows.
func (l *layers) change(one *asset, from origin, data []byte) error {
	one.Data = data
	one.origins = append(one.origins, from)
	if one.faulty {
		return nil
	}
	object, _, err := l.kinds.Decode(data, nil, nil)
	one.object, one.faulty = object, err != nil
	return from.explain(one.Name, err)
}

// explain places an error of the decoder at the line of the layer that has the field.
func (o origin) explain(asset string, err error) error {
	var mistyped *json.UnmarshalTypeError
	strict, isStrict := runtime.AsStrictDecodingError(err)
	switch {
	case err == nil:
		return nil
	case isStrict:
		return o.explainStrict(asset, strict.Errors())
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err):
		return faultf(o.line("kind"), "%q has no apiVersion or no kind", asset)
	case runtime.IsNotRegisteredError(err):
		return faultf(o.line("kind"), "%q: the generator does not know its apiVersion and kind; is one misspelt? New kinds go to pkg/generator/kinds.go", asset)
	case errors.As(err, &mistyped):
		return faultf(o.line(mistyped.Field), "%q: field %s is a %s, not a %s", asset, mistyped.Field, mistyped.Type, mistyped.Value)
	}
	return faultf(Position{File: o.file, Line: 1}, "decoding %q: %w", asset, err)
}

func (o origin) explainStrict(asset string, problems []error) error {
	named := regexp.MustCompile(`^unknown field "(.*)"$`)
	var faults []error
	for _, problem := range problems {
		match := named.FindStringSubmatch(problem.Error())
		if match == nil {
			faults = append(faults, faultf(Position{File: o.file, Line: 1}, "%q: %w", asset, problem))
			continue
		}
		faults = append(faults, faultf(o.line(match[1]), "%q has no field %s: it is misspelt or at the wrong level", asset, match[1]))
	}
	return errors.Join(faults...)
}
