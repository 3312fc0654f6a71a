// Package classes names the StorageClasses of types, and decides their fields from the choices of
// the administrator. Its callers are pkg/storageclass, the driver plugins, and pkg/kubectl, which
// shows what an operator would create.
package classes

import (
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

const (
	// TypeParameter is the parameter with the exact name of the type.
	TypeParameter = "type"
	// NetworkParameter is the parameter with the share network of a share type that needs one.
	NetworkParameter = "shareNetworkID"
	// autoTopology is the parameter with which shares are created in the zone of their first pod.
	autoTopology = "autoTopology"
	// zoneLabel is the label of nodes with the zone that the driver of Manila reports, whatever name
	// the driver has.
	zoneLabel = "topology.manila.csi.openstack.org/zone"
)

// Names names the StorageClasses of types, and contains the words of a driver for messages.
type Names struct {
	// Provisioner is the name of the CSI driver.
	Provisioner string
	// Prefix starts each name. No StorageClass of another driver has it.
	Prefix string
	// Kind is the kind of the choices, and Place where they are, for messages.
	Kind  choice.Kind
	Place string
	// Service starts the name of the controller: Manila or Cinder.
	Service string
	// Type starts the reasons of events: ShareType or VolumeType. Noun is the same in messages, and
	// Volumes is what the service creates.
	Type, Noun, Volumes string
}

// Ignored is the reason of an event about a type without a StorageClass.
func (n Names) Ignored() string { return n.Type + "Ignored" }

// GoneType is the reason of an event about a StorageClass without a type.
func (n Names) GoneType() string { return n.Type + "Gone" }

// NoNetwork is the reason of an event about a type that needs a share network.
func (n Names) NoNetwork() string { return n.Type + "WithoutNetwork" }

// NamesOf returns the names for a CSI driver whose choices have a kind.
func NamesOf(kind choice.Kind, provisioner string) Names {
	names := Names{
		Provisioner: provisioner, Kind: kind, Service: strings.TrimSuffix(string(kind), "Config"),
		Type: "ShareType", Noun: "share type", Volumes: "shares",
	}
	if kind == choice.Cinder {
		names.Type, names.Noun, names.Volumes = "VolumeType", "volume type", "volumes"
	}
	names.Prefix = choice.ClassPrefix(kind)
	names.Place = "key " + choice.Key + " of ConfigMap " + strings.ToLower(names.Service) +
		"-csi-config"
	return names
}

// Of returns the name of the StorageClass of each type. It depends on the set of types and on the
// existing classes, never on the order of either:
//   - An existing class of the type keeps its name.
//   - Otherwise the class gets the plain name, the name that earlier operators gave, if the name is
//     valid and free and no other type needs it. A type that is spelled like its plain name has
//     precedence, but not over the hashed name of another type.
//   - Otherwise the name ends in a hash of the type.
func (n Names) Of(
	types []string, existing map[string]*storagev1.StorageClass,
) map[string]string {
	wanted, hashed := map[string]int{}, map[string]bool{}
	unique := sets.New(types...)
	for t := range unique {
		wanted[n.Plain(t)]++
		hashed[n.Hashed(t)] = true
	}
	names := map[string]string{}
	for t := range unique {
		plain := n.Plain(t)
		switch {
		case existing[plain] != nil:
			names[t] = n.Hashed(t)
			if n.IsClassOf(existing[plain], t) {
				names[t] = plain
			}
		case n.IsClassOf(existing[n.Hashed(t)], t),
			len(validation.IsDNS1123Subdomain(plain)) > 0, hashed[plain]:
			names[t] = n.Hashed(t)
		case wanted[plain] == 1, plain == n.Prefix+t:
			names[t] = plain
		default:
			names[t] = n.Hashed(t)
		}
	}
	return names
}

// Plain returns the name of the StorageClass of a type, unless it is invalid or not free.
func (n Names) Plain(typeName string) string { return n.Prefix + choice.PlainName(typeName) }

// Hashed returns a valid and unique name for any type.
func (n Names) Hashed(typeName string) string { return choice.HashedName(n.Kind, typeName) }

// IsNameOf returns whether only the operator gives the name to a StorageClass of the type.
func (n Names) IsNameOf(name, typeName string) bool {
	return choice.IsOwnName(n.Kind, name, typeName)
}

// IsClassOf returns whether the class provisions volumes of the type with this driver.
func (n Names) IsClassOf(class *storagev1.StorageClass, typeName string) bool {
	return class != nil && class.Provisioner == n.Provisioner &&
		class.Parameters[TypeParameter] == typeName
}

// ByName returns StorageClasses by their names.
func ByName(all []*storagev1.StorageClass) map[string]*storagev1.StorageClass {
	index := make(map[string]*storagev1.StorageClass, len(all))
	for _, class := range all {
		index[class.Name] = class
	}
	return index
}
