package manila

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	classPrefix = "csi-manila-"
	// typeParameter is the parameter with the exact name of the share type.
	typeParameter = "type"
)

// classNames returns the name of the StorageClass of each share type. It depends on the set of
// types and on the existing classes, never on the order of either:
//   - An existing class of the type keeps its name.
//   - Otherwise the class gets plainName, the name that earlier operators gave, if the name is
//     valid and free and no other type needs it. A type that is spelled like its plain name has
//     precedence, but not over the hashed name of another type.
//   - Otherwise the name ends in a hash of the type.
func classNames(types []string, existing map[string]*storagev1.StorageClass) map[string]string {
	wanted, hashed := map[string]int{}, map[string]bool{}
	unique := sets.New(types...)
	for t := range unique {
		wanted[plainName(t)]++
		hashed[hashedName(t)] = true
	}
	names := map[string]string{}
	for t := range unique {
		plain := plainName(t)
		switch {
		case existing[plain] != nil:
			names[t] = hashedName(t)
			if isClassOf(existing[plain], t) {
				names[t] = plain
			}
		case isClassOf(existing[hashedName(t)], t),
			len(validation.IsDNS1123Subdomain(plain)) > 0, hashed[plain]:
			names[t] = hashedName(t)
		case wanted[plain] == 1, plain == classPrefix+t:
			names[t] = plain
		default:
			names[t] = hashedName(t)
		}
	}
	return names
}

// plainName follows the rule of csi-driver-manila-operator and OpenShift's csi-operator.
func plainName(shareType string) string {
	return classPrefix + strings.ReplaceAll(strings.ToLower(shareType), "_", "-")
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// hashedName returns a valid and unique name for any share type.
func hashedName(shareType string) string {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(shareType)))[:8]
	readable := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(shareType), "-"), "-")
	room := validation.DNS1123SubdomainMaxLength - len(classPrefix) - len(hash) - 1
	if len(readable) > room {
		readable = strings.TrimRight(readable[:room], "-")
	}
	if readable == "" {
		return classPrefix + hash
	}
	return classPrefix + readable + "-" + hash
}

// Limits for clouds that keep adding and removing share types.
const (
	// maxClasses is the number of StorageClasses of the driver at which the operator creates no more.
	// It deletes none of removed share types.
	maxClasses = 1000
	// maxTold is the maximum number of share types in an event or an error.
	maxTold = 5
	// maxListed is the maximum number of share types in the condition.
	maxListed = 10
)

// unusable returns why a share type gets no StorageClass. room is the number of classes that may be
// created.
func unusable(shareType string, room int) string {
	switch {
	case strings.ContainsFunc(shareType, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return "its name contains unprintable characters. Ask the administrator of the cloud to " +
			"rename it"
	case room <= 0:
		return fmt.Sprintf("the driver has %d StorageClasses already. Delete those whose share types no "+
			"longer exist",
			maxClasses)
	}
	return ""
}

func countOurs(existing map[string]*storagev1.StorageClass) int {
	count := 0
	for _, class := range existing {
		if class.Provisioner == string(Name) {
			count++
		}
	}
	return count
}

// joined joins at most limit parts of a message.
func joined(parts []string, limit int, separator string) string {
	if more := len(parts) - limit; more > 0 {
		parts = append(parts[:limit:limit], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, separator)
}

// isClassOf returns true if the class provisions shares of the type with this driver.
func isClassOf(class *storagev1.StorageClass, shareType string) bool {
	return class != nil && class.Provisioner == string(Name) &&
		class.Parameters[typeParameter] == shareType
}

func byName(classes []*storagev1.StorageClass) map[string]*storagev1.StorageClass {
	index := make(map[string]*storagev1.StorageClass, len(classes))
	for _, class := range classes {
		index[class.Name] = class
	}
	return index
}
