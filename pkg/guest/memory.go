package guest

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
)

const (
	// maxBody limits a response, and maxEvent one event of a watch. Both are far above real sizes.
	maxBody  = 64 << 20
	maxEvent = 16 << 20
	// maxValues limits the JSON values of both. A value takes many times the memory of its text.
	maxValues = 500_000
	// maxClass limits a StorageClass in the cache. The operators' StorageClasses have less than 1 KiB.
	maxClass = 4 << 10
)

const defaultClass = "storageclass.kubernetes.io/is-default-class"

// DropUnused returns a transform for informers of the guest side that removes unused content from
// memory. It keeps only the names of RBAC objects and CSIDrivers. From a large StorageClass, or a
// StorageClass of another driver, it keeps the provisioner and whether it is the default; writers
// of StorageClasses read them from the API server first.
func DropUnused(driver string) cache.TransformFunc {
	return func(obj any) (any, error) {
		switch object := obj.(type) {
		case *rbacv1.ClusterRole:
			return &rbacv1.ClusterRole{ObjectMeta: identity(&object.ObjectMeta)}, nil
		case *rbacv1.ClusterRoleBinding:
			return &rbacv1.ClusterRoleBinding{ObjectMeta: identity(&object.ObjectMeta)}, nil
		case *storagev1.CSIDriver:
			return &storagev1.CSIDriver{ObjectMeta: identity(&object.ObjectMeta)}, nil
		case *storagev1.StorageClass:
			object.ManagedFields = nil
			if object.Provisioner != driver || object.Size() > maxClass {
				return bareClass(object), nil
			}
			return object, nil
		}
		if object, err := meta.Accessor(obj); err == nil {
			object.SetManagedFields(nil)
		}
		return obj, nil
	}
}

// OnlyObject returns the transform for an informer of one object. It keeps only the names of other
// objects, which an API server that ignores field selectors returns too.
func OnlyObject(name string, next cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil || object.GetName() == name {
			return next(obj)
		}
		if other, ok := obj.(*unstructured.Unstructured); ok {
			return nameOnly(other), nil
		}
		bare := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
		if other, err := meta.Accessor(bare); err == nil {
			other.SetName(object.GetName())
			other.SetNamespace(object.GetNamespace())
			other.SetResourceVersion(object.GetResourceVersion())
		}
		return bare, nil
	}
}

func identity(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
	}
}

func bareClass(class *storagev1.StorageClass) *storagev1.StorageClass {
	bare := &storagev1.StorageClass{
		ObjectMeta: identity(&class.ObjectMeta), Provisioner: class.Provisioner,
	}
	if class.Annotations[defaultClass] == "true" {
		bare.Annotations = map[string]string{defaultClass: "true"}
	}
	return bare
}

// LimitResponses wraps the transport to the API server of the guest side. It limits responses and
// refuses redirects, which would send the token to another server. The administrator of the guest
// cluster can make the API server forward requests of an API group to any server.
func LimitResponses(next http.RoundTripper) http.RoundTripper { return limited{next} }

var (
	errTooLong    = errors.New("the response of the API server is too long")
	errRedirected = errors.New("the API server redirects the request, which is not allowed: " +
		"check the APIServices")
)

type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(request)
	if err != nil || response.Body == nil {
		return response, err
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 {
		return nil, errors.Join(errRedirected, response.Body.Close())
	}
	mediaType, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	framed := err == nil && mediaType == runtime.ContentTypeProtobuf
	watch := request.URL.Query().Get("watch")
	switch streamed := response.StatusCode == http.StatusOK && (watch == "true" || watch == "1"); {
	case !streamed:
		response.Body = &limitedBody{ReadCloser: response.Body, limit: maxBody, framed: framed}
	case !framed: // client-go limits the length of a frame
		response.Body = &limitedBody{ReadCloser: response.Body, limit: maxEvent, stream: true}
	}
	return response, nil
}

// WrappedRoundTripper returns the transport for client-go.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

// limitedBody returns an error after limit bytes or maxValues values: of the whole body, or of one
// object of a stream of events. It does not count values in protobuf, which is framed.
type limitedBody struct {
	io.ReadCloser
	limit, read, values, depth    int
	framed, stream, text, escaped bool
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for _, c := range p[:n] {
		if b.count(c); b.read > b.limit || b.values > maxValues {
			return 0, errTooLong
		}
	}
	return n, err
}

// count resets the counters after each JSON object of a stream. It ignores brackets and commas
// within strings.
func (b *limitedBody) count(c byte) {
	b.read++
	switch {
	case b.framed:
	case b.escaped:
		b.escaped = false
	case c == '"':
		b.text = !b.text
	case b.text:
		b.escaped = c == '\\'
	case c == ',':
		b.values++
	case c == '{' || c == '[':
		b.values++
		b.depth++
	case c == '}' || c == ']':
		if b.depth--; b.stream && b.depth == 0 {
			b.read, b.values = 0, 0
		}
	}
}
