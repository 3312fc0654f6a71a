package services

import (
	"encoding/json"
	"fmt"
	"os"
)

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
