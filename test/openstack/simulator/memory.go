package simulator

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/openshift/library-go/pkg/crypto"

	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// memory is what clients of a cloud know: it is the same when a simulator starts again with the
// same state on disk.
type memory struct {
	Credentials Credentials
	// Ports of the listeners.
	Ports []int
	// Certificate and Key of the CA in PEM, empty without TLS.
	Certificate, Key []byte
}

// memoryID is the ID of the only record.
const memoryID = "cloud"

// recall reads the record of an earlier simulator, and creates the certificates.
func (s *Simulator) recall() (err error) {
	if s.memory, err = state.OpenTable[memory](s.folder, "identity"); err != nil {
		return err
	}
	earlier, found := s.memory.Get(memoryID)
	if found {
		s.credentials = earlier.Credentials
	}
	for i, port := range earlier.Ports {
		if i < len(s.frontends) {
			s.frontends[i].port = strconv.Itoa(port)
		}
	}
	if !s.config.TLS {
		return nil
	}
	hosts := []string{"localhost", s.config.Host}
	if s.config.AdvertisedHost != "" {
		hosts = append(hosts, s.config.AdvertisedHost)
	}
	s.ca, err = newCA()
	if len(earlier.Key) > 0 {
		s.ca, err = crypto.GetCAFromBytes(earlier.Certificate, earlier.Key)
	}
	if err == nil {
		s.keyring, err = newKeyring(s.ca, hosts)
	}
	if err != nil {
		return fmt.Errorf("creating the certificates of the OpenStack simulator: %w", err)
	}
	return nil
}

// rememberNow writes the record.
func (s *Simulator) rememberNow() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remember()
}

// remember writes the record. Callers hold the lock.
func (s *Simulator) remember() error {
	if !s.folder.OnDisk() {
		return nil
	}
	record := memory{Credentials: s.credentials}
	for _, f := range s.frontends {
		if f.address != nil {
			record.Ports = append(record.Ports, f.address.Port)
		}
	}
	var err error
	if s.ca != nil {
		record.Certificate, record.Key, err = s.ca.Config.GetPEMBytes()
	}
	return errors.Join(err, s.memory.Put(memoryID, record))
}
