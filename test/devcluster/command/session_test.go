package command

import "testing"

func TestSummaryNamesFirstMissingObject(t *testing.T) {
	t.Parallel()
	for want, missing := range map[string][]string{
		"is ready":                              nil,
		"waits: condition A=False: line two":    {"condition A=False:\nline two"},
		"waits: no StorageClass a (and 2 more)": {"no StorageClass a", "b", "c"},
	} {
		if got := summary(missing); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
