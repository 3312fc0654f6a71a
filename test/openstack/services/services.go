// Package services runs the real API services of OpenStack on this machine: Keystone, Manila,
// Cinder and Nova from Debian packages, on SQLite databases. `make test-openstack` runs the tests
// of the operators against them, and compares the simulator with them.
//
// Only the API processes run. They answer requests that read as a cloud does. They accept or reject
// requests for changes, but no process carries out the changes: a new volume stays in the status
// "creating". The hosts behind availability zones are rows in the databases.
//
// Start starts the services. Main runs a command while the services run. Each test has its own
// Cloud: a project, a user and a catalog, behind the listeners of the simulator.
package services

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// The names of the services, as their packages, configuration files and logs have them.
const (
	keystone = "keystone"
	manila   = "manila"
	cinder   = "cinder"
	nova     = "nova"
	// brief is a second process of Keystone, whose tokens live for BriefTTL.
	brief = "keystone-brief"
)

const (
	// tokenTTL is the lifetime of a token. No test takes as long.
	tokenTTL = 24 * time.Hour
	// BriefTTL is the lifetime of the tokens of a Cloud whose Config.TokenTTL is not longer.
	BriefTTL = 30 * time.Second
	// startTime limits how long the services take to answer, on a busy machine.
	startTime = 3 * time.Minute
)

// Services are running services.
type Services struct {
	settings settings
	access   Access
	stop     context.CancelFunc
	running  []*process
}

// Start creates the databases in a folder, which must be empty, starts the services, and waits
// until they answer. Two copies of the services in different folders do not affect each other.
// Progress is called before each step. The services end when Stop is called, when the context ends,
// or when this process ends.
func Start(ctx context.Context, dir string, progress func(step string)) (*Services, error) {
	if err := checkPackages(ctx); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Services{stop: stop}
	s.settings = settings{Dir: dir, Password: rand.Text(), TokenTTL: tokenTTL, BriefTTL: BriefTTL}
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"starting the services", s.start},
		{"waiting for the services", s.await},
		{"registering the services", s.register},
	} {
		progress(step.name)
		if err := step.run(ctx); err != nil {
			s.Stop()
			return nil, fmt.Errorf("%s of OpenStack: %w", step.name, err)
		}
	}
	return s, nil
}

// Access returns what another process needs to use the services.
func (s *Services) Access() Access { return s.access }

// Stop ends the services and waits until they have ended. It may be called again.
func (s *Services) Stop() {
	s.stop()
	for _, p := range s.running {
		<-p.ended
	}
}

// start creates the databases and starts the processes. The sockets come first: the configuration
// contains the address of Keystone.
func (s *Services) start(ctx context.Context) error {
	sockets := map[string]*net.TCPListener{}
	s.access.Addresses = map[string]string{}
	for _, name := range []string{keystone, brief, manila, cinder, nova} {
		socket, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return err
		}
		defer socket.Close() //nolint:revive // all sockets close together
		sockets[name] = socket
		s.access.Addresses[name] = socket.Addr().String()
	}
	s.settings.AuthURL = "http://" + s.access.Addresses[keystone] + "/v3"
	s.access.Dir, s.access.Password = s.settings.Dir, s.settings.Password
	if err := s.settings.write(); err != nil {
		return err
	}
	if err := s.settings.createDatabases(ctx); err != nil {
		return err
	}
	for name, socket := range sockets {
		p, err := s.settings.serve(ctx, name, socket)
		if err != nil {
			return err
		}
		s.running = append(s.running, p)
	}
	return nil
}

// await waits until every service answers, whatever the answer.
func (s *Services) await(ctx context.Context) error {
	var waiting sync.WaitGroup
	failures := make([]error, len(s.running))
	for i, p := range s.running {
		waiting.Go(func() {
			if err := p.await(ctx); err != nil {
				failures[i] = fmt.Errorf("%s: %w; %s", p.name, err, s.settings.tail(p.name))
			}
		})
	}
	waiting.Wait()
	return errors.Join(failures...)
}

func (p *process) await(ctx context.Context) error {
	const interval = 100 * time.Millisecond
	return wait.PollUntilContextTimeout(ctx, interval, startTime, true,
		func(ctx context.Context) (bool, error) {
			select {
			case <-p.ended:
				return false, errors.New("the process has ended")
			default:
			}
			ctx, cancel := context.WithTimeout(ctx, startTime)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address, nil)
			if err != nil {
				return false, err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return false, nil // it does not answer yet
			}
			return true, response.Body.Close()
		})
}

// Access is what a process needs to use services that another process has started.
type Access struct {
	// Dir is the folder with the files of the services.
	Dir string
	// Addresses are host and port of each service, by its name: keystone, manila, cinder, nova.
	Addresses map[string]string
	// Password of the user admin.
	Password string
	// ServiceIDs are the IDs of the services in the catalog, by their type.
	ServiceIDs map[string]string
	// MemberRole is the ID of the role of the users of tests.
	MemberRole string
}

// Save writes the access to a file that only its owner can read.
func (a Access) Save(file string) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// LoadAccess reads a file that Save has written.
func LoadAccess(file string) (Access, error) {
	var a Access
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &a)
	}
	if err != nil {
		return Access{}, fmt.Errorf("reading the access to the OpenStack services: %w", err)
	}
	return a, nil
}
