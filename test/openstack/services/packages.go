package services

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// packages returns the Debian packages with the services. They contain libraries only: no daemon
// starts when they are installed.
func packages() []string {
	return []string{"python3-keystone", "python3-manila", "python3-cinder", "python3-nova"}
}

// checkPackages returns an error with the command that installs the missing packages.
func checkPackages(ctx context.Context) error {
	missing, err := missingPackages(ctx)
	if len(missing) == 0 || err != nil {
		return err
	}
	return missingError(missing)
}

func missingError(missing []string) error {
	return fmt.Errorf("the services of OpenStack need packages of Debian 12: run, as root, "+
		"RUNLEVEL=1 apt-get install --no-install-recommends %s", strings.Join(missing, " "))
}

// missingPackages returns the packages that are not installed.
func missingPackages(ctx context.Context) ([]string, error) {
	const format = "-f=${Package} ${db:Status-Status}\n"
	query := exec.CommandContext(ctx, "dpkg-query", append([]string{"-W", format}, packages()...)...)
	installed, err := query.Output()
	if _, unknown := errors.AsType[*exec.ExitError](err); err != nil && !unknown {
		return nil, fmt.Errorf("listing the installed packages, which takes Debian: %w", err)
	}
	return slices.DeleteFunc(packages(), func(name string) bool {
		return strings.Contains(string(installed), name+" installed\n")
	}), nil
}
