package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// packages are the packages of Debian that a node needs, by program.
func packages() map[string]string {
	return map[string]string{
		"runc": "runc", "nft": "nftables", "ip": "iproute2", "nsenter": "util-linux",
		"losetup": "mount",
	}
}

// Check returns an error that says what is missing to run real nodes with the programs.
func Check(programs string) error {
	if err := CheckMachine(); err != nil {
		return err
	}
	if _, err := os.Stat(programs + "/kubelet"); err != nil {
		return fmt.Errorf("real nodes need the programs that `make node` builds: %w", err)
	}
	return nil
}

// CheckMachine returns an error that says what this machine lacks, before the programs are built.
func CheckMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("real nodes need root: run the command as root")
	}
	var missing []string
	for program, name := range packages() {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("real nodes need Debian packages: apt-get install %s",
			strings.Join(slices.Compact(missing), " "))
	}
	return nil
}
