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

// Edited returns where the spec of an object differs from the manifest of the release, "" for
// nowhere.
func (r *Release) Edited(kind, name string, spec any) string {
	for text := range strings.SplitSeq("\n"+r.Manifest, "\n---") {
		var wanted unstructured.Unstructured
		if yaml.Unmarshal([]byte(text), &wanted.Object) != nil ||
			wanted.GetKind() != kind || wanted.GetName() != name {
			continue
		}
		return differs(wanted.Object["spec"], spec, "spec")
	}
	return ""
}

// differs returns the path of the first field that is not as wanted, "" for none.
func differs(wanted, found any, path string) string {
	switch of := wanted.(type) {
	case map[string]any:
		fields, _ := found.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if at := differs(of[name], fields[name], path+"."+name); at != "" {
				return at
			}
		}
		return ""
	case []any:
		list, _ := found.([]any)
		if len(of) != len(list) {
			return path
		}
		for i := range of {
			if at := differs(of[i], list[i], fmt.Sprintf("%s[%d]", path, i)); at != "" {
				return at
			}
		}
		return ""
	}
	want, got := fmt.Sprint(wanted), fmt.Sprint(found)
	quantity, err := resource.ParseQuantity(want)
	if other, failed := resource.ParseQuantity(got); isEmpty(wanted) || want == got ||
		err == nil && failed == nil && quantity.Cmp(other) == 0 {
		return ""
	}
	return path
}
