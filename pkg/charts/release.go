package charts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Release is what Helm records about a revision of a release.
type Release struct {
	Manifest string
	Version  int
	Info     struct{ Status string }
	Chart    struct{ Values map[string]any }
	Config   map[string]any
}

// maxRelease is the maximum size of a record in bytes, without its compression.
const maxRelease = 32 << 20

// DecodeRelease decodes the key release of a Secret of Helm 3 or 4.
func DecodeRelease(data []byte) (*Release, error) {
	found := &Release{}
	text, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(data)))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(text, maxRelease)).Decode(found)
	}
	if err != nil { // its text may contain values
		return nil, errors.New("Helm's record of the release cannot be decoded")
	}
	return found, nil
}

// Values returns the values of the release: those of the user over the defaults of the chart.
func (r *Release) Values() map[string]any { return merged(r.Chart.Values, r.Config) }

// Edited returns where the spec of an object differs from the manifest of the release.
func (r *Release) Edited(kind, name string, spec any) []string {
	if wanted := r.object(kind, name); wanted != nil {
		return differs(wanted.Object["spec"], spec, "")
	}
	return nil
}

// Contains returns whether an object is part of the release. Its marks may stay after that.
func (r *Release) Contains(kind, name string) bool { return r.object(kind, name) != nil }

func (r *Release) object(kind, name string) *unstructured.Unstructured {
	for text := range strings.SplitSeq("\n"+r.Manifest, "\n---") {
		var one unstructured.Unstructured
		if yaml.Unmarshal([]byte(text), &one.Object) == nil && one.GetKind() == kind &&
			one.GetName() == name {
			return &one
		}
	}
	return nil
}

// byName returns the objects of a list by their names, others by their positions.
func byName(list any) map[string]any {
	all := map[string]any{}
	objects, _ := list.([]any)
	for i, one := range objects {
		fields, _ := one.(map[string]any)
		name, ok := fields["name"].(string)
		if !ok {
			name = strconv.Itoa(i)
		}
		all[name] = one
	}
	return all
}

// differs returns the paths of the fields that are not as wanted.
func differs(wanted, found any, path string) (all []string) {
	switch of := wanted.(type) {
	case map[string]any:
		fields, _ := found.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			at := strings.TrimPrefix(strings.TrimPrefix(path+"."+name, "."), "template.spec.")
			all = append(all, differs(of[name], fields[name], at)...)
		}
		return all
	case []any:
		ours, theirs := byName(of), byName(found)
		for _, name := range slices.Sorted(maps.Keys(merged(ours, theirs))) {
			at := path + "[" + name + "]"
			if ours[name] == nil || theirs[name] == nil {
				all = append(all, at)
			} else {
				all = append(all, differs(ours[name], theirs[name], at)...)
			}
		}
		return all
	}
	want, got := fmt.Sprint(wanted), fmt.Sprint(found)
	quantity, err := resource.ParseQuantity(want)
	if other, failed := resource.ParseQuantity(got); isEmpty(wanted) || want == got ||
		err == nil && failed == nil && quantity.Cmp(other) == 0 {
		return nil
	}
	return []string{path}
}
