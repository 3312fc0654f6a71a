// Package loop makes loop devices of files, for volumes of real nodes, and frees the loop devices
// of a node that has ended. Packages node and supervisor call it.
package loop

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// controlDevice returns the numbers of free loop devices.
const controlDevice = "/dev/loop-control"

// attempts limits how often Attach asks for a free device: another process may take the device that
// the kernel named.
const attempts = 20

// Device is a loop device of a file. The kernel frees it when it is closed and no longer mounted,
// at the latest when this process and the mounts end.
type Device struct {
	number int
	file   *os.File
}

// Name returns the path of the device, such as /dev/loop3.
func (d *Device) Name() string { return path(d.number) }

func path(number int) string { return "/dev/loop" + strconv.Itoa(number) }

func (d *Device) id() uint64 { return unix.Mkdev(loopMajor, uint32(d.number)) }

// Attach returns a loop device of the file.
func Attach(file string) (*Device, error) {
	backing, err := os.OpenFile(file, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the file of a volume: %w", err)
	}
	defer backing.Close()
	control, err := os.OpenFile(controlDevice, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", controlDevice, err)
	}
	defer control.Close()
	for range attempts {
		var number int
		if number, err = unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE); err != nil {
			return nil, fmt.Errorf("finding a free loop device: %w", err)
		}
		var device *Device
		if device, err = configure(number, backing); !errors.Is(err, unix.EBUSY) {
			return device, err
		}
	}
	return nil, err
}

func configure(number int, backing *os.File) (*Device, error) {
	name := path(number)
	file, err := os.OpenFile(name, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening a loop device: %w", err)
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd())}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(file.Fd()), &config); err != nil {
		return nil, errors.Join(fmt.Errorf("making %s of %s: %w", name, backing.Name(), err),
			file.Close())
	}
	return &Device{number: number, file: file}, nil
}

// Resize adapts the device to the size of its file.
func (d *Device) Resize() error {
	if err := unix.IoctlSetInt(int(d.file.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return fmt.Errorf("resizing %s: %w", d.Name(), err)
	}
	return nil
}

// shutDownFlag makes a file system write nothing more, not even its journal, and shutDownRequest is
// the request of ext4 and xfs for it: EXT4_IOC_SHUTDOWN in linux/ext4.h.
const (
	shutDownRequest = 0x8004587d
	shutDownFlag    = 2
)

// shutDown lets the file system with the folder fail without writing what it has in memory.
func shutDown(folder string) error {
	root, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("opening a file system: %w", err)
	}
	defer root.Close()
	if err := unix.IoctlSetPointerInt(int(root.Fd()), shutDownRequest, shutDownFlag); err != nil {
		return fmt.Errorf("shutting down the file system of %s: %w", folder, err)
	}
	return nil
}

// Close closes the device. The kernel frees it when it is no longer mounted.
func (d *Device) Close() error { return d.file.Close() }

// FreeBelow frees the loop devices of all files below a folder, and the loop devices of those
// devices: a kubelet makes one for each block volume of a pod. It returns their number. Loop
// devices that are mounted are freed when they are unmounted.
func FreeBelow(folder string) (int, error) {
	devices, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return 0, fmt.Errorf("listing loop devices: %w", err)
	}
	ours, above := map[uint64]int{}, map[int]uint64{}
	for _, file := range devices {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it was freed
		}
		number, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(filepath.Dir(filepath.Dir(file))),
			"loop"))
		if err != nil {
			return 0, fmt.Errorf("reading the number of loop device %s: %w", file, err)
		}
		if strings.HasPrefix(string(content), strings.TrimSuffix(folder, "/")+"/") {
			ours[unix.Mkdev(loopMajor, uint32(number))] = number
		} else if backing, err := backingDevice(number); err == nil && backing != 0 {
			above[number] = backing
		}
	}
	freed := 0
	var errs []error
	for number, backing := range above {
		if _, found := ours[backing]; found {
			freed++
			errs = append(errs, free(number))
		}
	}
	for _, number := range ours {
		freed++
		errs = append(errs, free(number))
	}
	return freed, errors.Join(errs...)
}

// loopMajor is the major number of loop devices, from the kernel's list of devices.
const loopMajor = 7

// backingDevice returns the device of which a loop device was made, or zero for one of a file.
func backingDevice(number int) (uint64, error) {
	file, err := os.Open(path(number))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	status, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	if err != nil {
		return 0, err
	}
	return status.Rdevice, nil
}

func free(number int) error {
	file, err := os.OpenFile(path(number), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("opening a loop device: %w", err)
	}
	defer file.Close()
	err = unix.IoctlSetInt(int(file.Fd()), unix.LOOP_CLR_FD, 0)
	if err != nil && !errors.Is(err, unix.ENXIO) { // ENXIO: it was freed
		return fmt.Errorf("freeing %s: %w", path(number), err)
	}
	return nil
}
