//go:build integration && long

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDocumentedCommandsGrantOtherSecrets runs the commands of docs/manila.md for StorageClasses
// that name other Secrets.
func TestDocumentedCommandsGrantOtherSecrets(t *testing.T) {
	t.Parallel()
	documentation, err := os.ReadFile(filepath.Join("..", "..", "docs", "manila.md"))
	assert.NilError(t, err)
	commands := regexp.MustCompile(`(?m)^    kubectl (.*secret-reader.*)$`).
		FindAllStringSubmatch(string(documentation), -1)
	if len(commands) != 4 {
		t.Fatalf("docs/manila.md contains the commands %q, want a Role and a ClusterRole, each with "+
			"its binding", commands)
	}
	e := newEnv(t, options{})
	e.awaitAvailable()
	const team = "team"
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}
	_, err = e.guest.kube.CoreV1().Namespaces().Create(e.ctx(), namespace, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		e.must(err)
	}
	controller := account{e.guest, operandNamespace, controllerAccount}
	own := allow("", "secrets", "get", loginSecret)
	named := allow("", "secrets", "get", "team-credentials")
	other := allow("", "secrets", "get", credentialsSecret)
	e.eventually(soon, func() error { return controller.may(e, true, operandNamespace, own) })
	e.must(controller.may(e, false, team, named))
	e.must(controller.may(e, false, operandNamespace, other))
	for _, step := range []struct {
		commands [][]string
		other    bool
	}{{commands[:2], false}, {commands[2:], true}} {
		for _, command := range step.commands {
			e.kubectl(strings.Fields(strings.ReplaceAll(command[1], "$NAMESPACE", operandNamespace))...)
		}
		e.eventually(soon, func() error { return controller.may(e, true, team, named) })
		e.eventually(soon, func() error {
			return controller.may(e, step.other, operandNamespace, other)
		})
	}
	e.restartOperator()
	e.awaitNoWrites()
	e.must(controller.may(e, true, operandNamespace, other))
}

// kubectl runs kubectl as administrator of the guest cluster.
func (e *env) kubectl(args ...string) {
	e.t.Helper()
	program := filepath.Join(shared.Kubernetes, "kubectl")
	args = append([]string{"--kubeconfig=" + e.guest.dir.AdminKubeconfig()}, args...)
	output, err := exec.CommandContext(e.ctx(), program, args...).CombinedOutput()
	if err != nil {
		e.t.Fatalf("kubectl %q: %v\n%s", args[1:], err, output)
	}
}
