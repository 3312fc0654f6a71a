package kubectl

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// complete returns the kinds, and after KIND/ the names of the objects in the namespace.
func (o *options) complete(cmd *cobra.Command, args []string, word string) (
	[]string, cobra.ShellCompDirective,
) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	kind, _, named := strings.Cut(word, "/")
	if !named {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(explainers())) {
			kinds = append(kinds, kind+"/")
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	of, known := explainers()[kind]
	if !known {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	run := o.run(Streams{}, func(ctx context.Context, s *session, _ []string) error {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(of.GroupVersion().WithKind(of.Kind + "List"))
		s.guest.read(ctx, list, client.InNamespace(s.namespace))
		for _, one := range list.Items {
			names = append(names, kind+"/"+one.Name)
		}
		return s.failed()
	})
	if err := run(cmd, nil); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveError
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
