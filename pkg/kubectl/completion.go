package kubectl

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onlyWords means that the shell offers no files.
const onlyWords = cobra.ShellCompDirectiveNoFileComp

// completes sets what the shell offers for the value of a flag, which exists.
func completes(cmd *cobra.Command, flag string, words cobra.CompletionFunc) {
	_ = cmd.RegisterFlagCompletionFunc(flag, words)
}

// completeObject returns the kinds, and after KIND/ the names of the objects in the namespace.
func (o *options) completeObject(cmd *cobra.Command, args []string, word string) (
	[]string, cobra.ShellCompDirective,
) {
	if len(args) > 0 {
		return nil, onlyWords
	}
	kind, _, named := strings.Cut(word, "/")
	if !named {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(explainers())) {
			kinds = append(kinds, kind+"/")
		}
		return kinds, onlyWords | cobra.ShellCompDirectiveNoSpace
	}
	of, known := explainers()[kind]
	if !known {
		return nil, onlyWords
	}
	return o.completeNames(cmd, of.GroupVersionKind, kind+"/")
}

// completeNamespace returns the names of all namespaces.
func (o *options) completeNamespace(cmd *cobra.Command, _ []string, _ string) (
	[]string, cobra.ShellCompDirective,
) {
	return o.completeNames(cmd, corev1.SchemeGroupVersion.WithKind("Namespace"), "")
}

// completeNames returns the names of the objects of a kind after a prefix.
func (o *options) completeNames(cmd *cobra.Command, kind schema.GroupVersionKind, prefix string) (
	names []string, _ cobra.ShellCompDirective,
) {
	run := o.run(func(ctx context.Context, s *session, _ []string) error {
		list := listOf(kind)
		if kind.Kind == "Namespace" {
			s.namespace = ""
		}
		s.guest.read(ctx, list, client.InNamespace(s.namespace))
		for _, one := range list.Items {
			names = append(names, prefix+one.Name)
		}
		return s.failed()
	})
	if err := run(cmd, nil); err != nil {
		return nil, onlyWords | cobra.ShellCompDirectiveError
	}
	return names, onlyWords
}
