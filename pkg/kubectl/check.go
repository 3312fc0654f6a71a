package kubectl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

// check is the command `check`.
type check struct {
	cloud

	file string
}

func newCheckCommand(o *options, streams Streams) *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check whether a cluster, a clouds.yaml or an operator.yaml is ready for an installation",
		Long: "Check whether a cluster is ready for an installation; after the installation the same " +
			"as status. With -f check an operator.yaml, which needs no cluster, and print how " +
			"StorageClasses would change. docs/kubectl.md lists the permissions.",
		Example: "  kubectl openstack-csi check --clouds clouds.yaml\n" +
			"  kubectl openstack-csi check -f operator.yaml",
		Args: atMost(0),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.clusterless = c.file != ""
		return o.run(streams, c.run)(cmd, args)
	}
	o.addOutputTo(cmd.Flags())
	c.addTo(cmd)
	cmd.Flags().StringVarP(&c.file, "filename", "f", "", "An operator.yaml to check.")
	return cmd
}

func (c *check) run(ctx context.Context, s *session, _ []string) error {
	if c.file != "" {
		return s.why(ctx, c.file, c.checkFile, question{session: s})
	}
	links, err := c.offers(ctx)
	if err != nil {
		return err
	}
	report, err := s.status(ctx, drivers())
	if err != nil {
		return err
	}
	if len(report.Findings) == 0 || report.Findings[0].Type != typeAbsent {
		return s.checkAgain(ctx, links)
	}
	return s.why(ctx, "the cluster", func(ctx context.Context, q question) (*answer, error) {
		links := append(links, q.checkInstallation(ctx)...)
		if causeOf(links) != nil {
			return &answer{state: "not ready for an installation", links: links}, nil
		}
		return &answer{state: "ready for an installation", links: links}, nil
	}, question{session: s})
}

// checkAgain prints the status after an installation, with what is wrong with the login.
func (s *session) checkAgain(ctx context.Context, cloud []Link) error {
	for _, l := range cloud {
		if l.State == OK {
			fmt.Fprintln(s.Err, wrap("", l.Text, 0))
			continue
		}
		s.more = append(s.more, Finding{"cloud", diagnosis.Finding{
			Severity: l.State, Type: "Clouds", Message: l.Text,
		}})
	}
	return s.showStatus(ctx, nil, repetition{})
}
