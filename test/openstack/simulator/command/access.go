package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// tokensCommand is about tokens.
func tokensCommand() *cobra.Command {
	return group("tokens", "Revoke tokens, change their life",
		drive("revoke", "Revoke all tokens", cobra.NoArgs,
			func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
				count, err := client.RevokeTokens(cmd.Context())
				if err != nil {
					return err
				}
				return printf(cmd, "%d revoked\n", count)
			}),
		drive("ttl DURATION", "Change the life of the tokens issued from now on", cobra.ExactArgs(1),
			func(cmd *cobra.Command, client *simulator.Client, args []string) error {
				ttl, err := time.ParseDuration(args[0])
				if err != nil {
					return fmt.Errorf("reading the duration: %w", err)
				}
				return client.SetTokenTTL(cmd.Context(), ttl)
			}),
	)
}

// credentialsCommand is about credentials.
func credentialsCommand() *cobra.Command {
	var rotation simulator.Rotation
	rotate := drive("rotate", "Change the accepted password and application credential; clouds-yaml shows the new ones",
		cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			_, err := client.RotateCredentials(cmd.Context(), rotation)
			return err
		})
	flags := rotate.Flags()
	flags.StringVar(&rotation.Password, "password", "", "new password (default random)")
	flags.StringVar(&rotation.ApplicationCredentialID, "application-credential-id", "", "new ID (default random)")
	flags.StringVar(&rotation.ApplicationCredentialSecret, "application-credential-secret", "", "new secret (default random)")
	flags.BoolVar(&rotation.KeepTokens, "keep-tokens", false, "do not revoke the tokens of the old credentials")
	return group("credentials", "Change the credentials that Keystone accepts", rotate)
}

// cloudsCommand prints a clouds.yaml.
func cloudsCommand() *cobra.Command {
	var options simulator.Clouds
	clouds := drive("clouds-yaml", "Print a clouds.yaml with the accepted credentials", cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			content, err := client.CloudsYAML(cmd.Context(), options)
			if err != nil {
				return err
			}
			return printf(cmd, "%s", content)
		})
	flags := clouds.Flags()
	flags.StringVar(&options.Cloud, "cloud", "openstack", "`name` of the cloud")
	flags.StringVar((*string)(&options.Auth), "auth", string(simulator.Password),
		"`way` to log in: password, application-credential or application-credential-name")
	flags.StringVar(&options.Region, "region", "", "`region` to name (default the first)")
	flags.BoolVar(&options.NoRegion, "no-region", false, "name no region")
	flags.StringVar(&options.CACert, "cacert", "", "`path` of the CA file to name")
	return clouds
}

// caCommand prints the CA.
func caCommand() *cobra.Command {
	return drive("ca", "Print the certificate of the private CA", cobra.NoArgs,
		func(cmd *cobra.Command, client *simulator.Client, _ []string) error {
			ca, err := client.CA(cmd.Context())
			if err != nil {
				return err
			}
			return printf(cmd, "%s", ca)
		})
}
