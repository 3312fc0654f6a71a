// Package port reserves TCP ports. The OpenStack simulator, the devcluster's control plane and
// test/chaos use it for servers that are unreachable for a while.
package port

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"
)

// Reservation is a socket that is bound but does not listen: the kernel refuses connections, and no
// other process gets the port by chance. A listener can bind beside it. The zero value reserves
// nothing.
type Reservation struct {
	socket *int
	port   int
}

// Reserve reserves an IPv4 address and port; port 0 reserves a free one. Connections of an earlier
// server may still exist.
func Reserve(address string) (Reservation, error) {
	parsed, err := netip.ParseAddrPort(address)
	if err == nil && !parsed.Addr().Is4() {
		err = errors.New("not an IPv4 address")
	}
	if err != nil {
		return Reservation{}, fmt.Errorf("reserving %q: %w", address, err)
	}
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Reservation{}, fmt.Errorf("reserving %s: %w", address, err)
	}
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{
			Port: int(parsed.Port()), Addr: parsed.Addr().As4(),
		})
	}
	var bound syscall.Sockaddr
	if err == nil {
		bound, err = syscall.Getsockname(socket)
	}
	if err != nil {
		err = fmt.Errorf("reserving %s: %w", address, err)
		return Reservation{}, errors.Join(err, syscall.Close(socket))
	}
	return Reservation{socket: &socket, port: bound.(*syscall.SockaddrInet4).Port}, nil
}

// Port returns the reserved port.
func (r *Reservation) Port() int { return r.port }

// Release frees the port. It does nothing if the port is free already.
func (r *Reservation) Release() error {
	if r.socket == nil {
		return nil
	}
	socket := *r.socket
	r.socket = nil
	if err := syscall.Close(socket); err != nil {
		return fmt.Errorf("releasing a port: %w", err)
	}
	return nil
}
