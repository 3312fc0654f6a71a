//go:build unix

package simulator

import (
	"fmt"
	"net"
	"syscall"
)

// reservation keeps a port from being given to anybody else while nobody listens on it: a socket that is bound but
// does not listen makes the kernel refuse connections. The next listener may bind beside it.
type reservation struct{ socket int }

// reserve binds the IPv4 address.
func reserve(address *net.TCPAddr) (*reservation, error) {
	ip := address.IP.To4()
	if ip == nil {
		return nil, fmt.Errorf("reserving %s: not an IPv4 address", address)
	}
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserving %s: %w", address, err)
	}
	held := &reservation{socket: socket}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		held.release()
		return nil, fmt.Errorf("reserving %s: %w", address, err)
	}
	if err := syscall.Bind(socket, &syscall.SockaddrInet4{Port: address.Port, Addr: [4]byte(ip)}); err != nil {
		held.release()
		return nil, fmt.Errorf("reserving %s: %w", address, err)
	}
	return held, nil
}

// release gives the port back.
func (r *reservation) release() { _ = syscall.Close(r.socket) }
