package guest_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

func TestSlim(t *testing.T) {
	t.Parallel()
	class := func(provisioner, parameter string, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "c", UID: "u", ResourceVersion: "7", Annotations: annotations,
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
			},
			Provisioner: provisioner, Parameters: map[string]string{"type": parameter},
		}
	}
	bare := func(provisioner string, annotations map[string]string) *storagev1.StorageClass {
		return &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "c", UID: "u", ResourceVersion: "7", Annotations: annotations}, Provisioner: provisioner,
		}
	}
	own := class("driver", "fast", map[string]string{"a": "b"})
	own.ManagedFields = nil
	isDefault := map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	both := map[string]string{"storageclass.kubernetes.io/is-default-class": "true", "a": "b"}
	for name, tt := range map[string]struct{ given, want any }{
		"own class":      {class("driver", "fast", map[string]string{"a": "b"}), own},
		"another's":      {class("other", "fast", map[string]string{"a": "b"}), bare("other", nil)},
		"the default":    {class("other", "fast", both), bare("other", isDefault)},
		"a big own":      {class("driver", strings.Repeat("x", 5000), both), bare("driver", isDefault)},
		"a ClusterRole":  {&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r", Annotations: both}, Rules: []rbacv1.PolicyRule{{}}}, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}}},
		"what is no API": {"tombstone", "tombstone"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			slim := guest.Slim("driver")
			got, err := slim(tt.given)
			if err != nil {
				t.Fatal(err)
			}
			again, err := slim(got)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, again); diff != "" {
				t.Errorf("cached (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		query, line string
		mebibytes   int
		tooLong     bool
	}{
		{"", "", 63, false},
		{"", "\n", 66, true},
		{"?watch=true", "\n", 70, false},
		{"?watch=true", "", 17, true},
		{"?watch=1", "", 17, true},
		{"?watch=true", "", 15, false},
	} {
		t.Run(fmt.Sprintf("%d MiB%s%q", tt.mebibytes, tt.query, tt.line), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				chunk := strings.Repeat("x", 1<<20-len(tt.line)) + tt.line
				for range tt.mebibytes {
					if _, err := io.WriteString(w, chunk); err != nil {
						return // the client has read enough
					}
				}
			}))
			defer server.Close()
			client := server.Client()
			client.Transport = guest.Limit(client.Transport)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+tt.query, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			_, err = io.Copy(io.Discard, response.Body)
			if tooLong := err != nil; tooLong != tt.tooLong || errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("reading returned %v, want an error: %v", err, tt.tooLong)
			}
		})
	}
}
