package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// knownCommand accepts no arguments. If the argument is the misspelt name of a subcommand, the
// error contains the name. cobra does the same, but only for the first word of the command line.
func knownCommand(cmd *cobra.Command, args []string) error {
	err := cobra.NoArgs(cmd, args)
	if err == nil {
		return nil
	}
	return withSimilar(err, cmd, args[0], "")
}

// explainFlag adds the names of similar flags to an error about an unknown flag.
func explainFlag(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	// cobra compares only the names of commands.
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return withSimilar(err, flags, unknown.GetSpecifiedName(), "--")
}

// withSimilar adds the names of the subcommands of cmd that are similar to name, with a prefix, to
// an error.
func withSimilar(err error, cmd *cobra.Command, name, prefix string) error {
	cmd.SuggestionsMinimumDistance = 2
	similar := cmd.SuggestionsFor(name)
	if len(similar) == 0 {
		return err
	}
	return fmt.Errorf("%w\n\nDid you mean this?\n\t%s", err,
		prefix+strings.Join(similar, "\n\t"+prefix))
}
