package loop

import "testing"

func TestDisksAreNamedAsNovaAndUdevDo(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6": "/dev/disk/by-id/virtio-0b1b7a2e-6d2a-4c34-9",
		"short":                                "/dev/disk/by-id/virtio-short",
	} {
		if got := NewDisks("/dev/disk/by-id").link(id); got != want {
			t.Errorf("the disk of volume %s is %s, want %s", id, got, want)
		}
	}
}
