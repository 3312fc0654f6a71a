package paths

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What has no kubeconfig is no cluster, perhaps not even ours.
func TestGuests(t *testing.T) {
	t.Parallel()
	dir := Dir(t.TempDir())
	if got, err := dir.Guests(); err != nil || len(got) > 0 {
		t.Errorf("an empty folder has %q, %v", got, err)
	}
	for _, path := range []string{
		dir.Guest("guest-10").AdminKubeconfig(), dir.Guest("guest-2").AdminKubeconfig(),
		dir.Guest("guest-3").AuditLog(),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := dir.Guests()
	if diff := cmp.Diff([]string{"guest-2", "guest-10"}, got); err != nil || diff != "" {
		t.Errorf("guests: %v (-want +got):\n%s", err, diff)
	}
}
