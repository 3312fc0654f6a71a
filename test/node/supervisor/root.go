package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// loopDevices is the number of loop devices of a node. They exist before the kernel uses them.
const loopDevices = 256

// enterRoot makes a root folder for the node: the programs of the machine, read-only, and
// everything else of its own. Mounts in it are shared, so that mounts of pods reach the node and
// other pods.
func (n *node) enterRoot() error {
	root := filepath.Join(n.config.Dir, "root")
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mount("tmpfs", root, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	steps := []func(string) error{
		n.mountPrograms, n.mountFolders, mountKernel, makeDevices, pivot, hideSettings,
	}
	for _, step := range steps {
		if err := step(root); err != nil {
			return fmt.Errorf("making the root folder of the node: %w", err)
		}
	}
	return unix.Sethostname([]byte(n.config.Name))
}

// mount mounts, and makes the folder on which it mounts.
func mount(source, target, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", source, target, err)
	}
	return nil
}

// bindReadOnly shows a folder of the machine to the node.
func bindReadOnly(source, target string) error {
	if err := mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// mountPrograms mounts the folders of programs and libraries, which are often links to /usr.
func (n *node) mountPrograms(root string) error {
	for _, name := range []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		source, target := filepath.Join("/", name), filepath.Join(root, name)
		info, err := os.Lstat(source)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			err = bindReadOnly(source, target)
		} else if source, err = os.Readlink(source); err == nil {
			err = os.Symlink(source, target)
		}
		if err != nil {
			return err
		}
	}
	return bindReadOnly(n.config.Programs, filepath.Join(root, ProgramsPath))
}

func (n *node) mountFolders(root string) error {
	mounts := map[string]string{}
	for _, name := range []string{"etc", "var", "tmp"} {
		mounts["/"+name] = filepath.Join(n.config.Dir, name)
	}
	for _, mounts := range []map[string]string{mounts, n.config.Mounts} {
		for target, source := range mounts {
			if err := os.MkdirAll(source, 0o755); err != nil {
				return err
			}
			if err := mount(source, filepath.Join(root, target), "", unix.MS_BIND, ""); err != nil {
				return err
			}
		}
	}
	if err := os.Chmod(filepath.Join(root, "tmp"), 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for _, folder := range []string{"root", "mnt", "var/lib", "var/log"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	err := os.Symlink("/run", filepath.Join(root, "var", "run"))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return mount("tmpfs", filepath.Join(root, "run"), "tmpfs", 0, "mode=755")
}

// mountKernel mounts the file systems of the kernel. Control groups are those of the machine.
func mountKernel(root string) error {
	groups := filepath.Join(root, cgroupRoot)
	return errors.Join(
		mount("proc", filepath.Join(root, "proc"), "proc", 0, ""),
		mount("sysfs", filepath.Join(root, "sys"), "sysfs", 0, ""),
		unix.Mount(cgroupRoot, groups, "", unix.MS_BIND|unix.MS_REC, ""),
	)
}

// makeDevices makes /dev without the disks of the machine.
func makeDevices(root string) error {
	dev := filepath.Join(root, "dev")
	if err := mount("tmpfs", dev, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	// The numbers of devices are those of the kernel's list.
	devices := map[string]uint64{
		"null": unix.Mkdev(1, 3), "zero": unix.Mkdev(1, 5), "full": unix.Mkdev(1, 7),
		"random": unix.Mkdev(1, 8), "urandom": unix.Mkdev(1, 9), "kmsg": unix.Mkdev(1, 11),
		"tty": unix.Mkdev(5, 0), "fuse": unix.Mkdev(10, 229), "loop-control": unix.Mkdev(10, 237),
	}
	for name, number := range devices {
		if err := makeDevice(filepath.Join(dev, name), unix.S_IFCHR|0o666, number); err != nil {
			return err
		}
	}
	for i := range loopDevices {
		path := filepath.Join(dev, "loop"+strconv.Itoa(i))
		if err := makeDevice(path, unix.S_IFBLK|0o660, unix.Mkdev(7, uint32(i))); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
		"stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, filepath.Join(dev, link)); err != nil {
			return err
		}
	}
	return errors.Join(
		os.MkdirAll(filepath.Join(dev, "disk", "by-id"), 0o755),
		mount("devpts", filepath.Join(dev, "pts"), "devpts", 0, "newinstance,ptmxmode=0666,mode=0620"),
		mount("tmpfs", filepath.Join(dev, "shm"), "tmpfs", 0, "mode=1777"),
		mount("mqueue", filepath.Join(dev, "mqueue"), "mqueue", 0, ""),
	)
}

func makeDevice(path string, mode uint32, number uint64) error {
	if err := unix.Mknod(path, mode, int(number)); err != nil {
		return fmt.Errorf("making device %s: %w", path, err)
	}
	// The mode of mknod is subject to the umask.
	return os.Chmod(path, fs.FileMode(mode&0o777))
}

// pivot replaces the root of the machine by the folder.
func pivot(root string) error {
	old := filepath.Join(root, "old")
	if err := os.Mkdir(old, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(root, old); err != nil {
		return fmt.Errorf("replacing the root folder: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if err := unix.Unmount("/old", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the folders of the machine: %w", err)
	}
	return errors.Join(os.Remove("/old"), mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
}

// kernelSettings are the settings that a kubelet writes, with the values that it wants. They belong
// to the whole machine.
func kernelSettings() map[string]string {
	return map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10",
		"kernel/panic_on_oops": "1", "kernel/keys/root_maxkeys": "1000000",
		"kernel/keys/root_maxbytes": "25000000",
	}
}

// hideSettings mounts files over the settings of the machine's kernel, so that the kubelet does not
// change the machine. It allows the node to forward packets, which is a setting of its network.
func hideSettings(string) error {
	for name, value := range kernelSettings() {
		file := filepath.Join("/run", "kernel-settings", strings.ReplaceAll(name, "/", "."))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		target := filepath.Join("/proc/sys", name)
		if err := unix.Mount(file, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hiding %s: %w", target, err)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}
