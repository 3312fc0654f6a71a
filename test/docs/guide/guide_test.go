package guide

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommandsAreTheBlocksOfASection(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	text := "# Page\n\n    first page\n\n## One\n\nText:\n\n" +
		"    cat <<EOF\n      indented\n    EOF\n    b\n" +
		"\nThe output is similar to this:\n\n    output\n\n    more\n" +
		"\nText:\n\n    c\n\n## Two\n\n    d\n"
	if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Commands(page, "One")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cat <<EOF\n  indented\nEOF\nb\n", "c\n"}, got); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if _, err := Commands(page, "Three"); err == nil {
		t.Error("a heading that does not exist is no error")
	}
}

func TestRunReportsTheOutputOfAFailure(t *testing.T) {
	t.Parallel()
	output, err := Output(t.Context(), "echo \"$WORD\"", "WORD=yes")
	if err != nil || output != "yes\n" {
		t.Errorf("output %q, error %v", output, err)
	}
	err = Run(t.Context(), "echo printed\nfalse\necho later")
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 1\nprinted\n") {
		t.Errorf("error %v", err)
	}
}
