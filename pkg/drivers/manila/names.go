package manila

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	classPrefix = "csi-manila-"
	// typeParameter has the share type's exact name.
	typeParameter = "type"
)

// classNames returns the name of the StorageClass of each share type. It depends on the set of types and on the classes that
// exist, never on the order of either:
//   - A class that exists for the type keeps its name.
//   - The name that earlier operators gave, plainName, is taken where it is valid, free, and no other type wants it too. A type
//     that is spelled like its plain name has precedence, but not over the hash of another type.
//   - Otherwise the name ends in a hash of the type.
func classNames(types []string, existing map[string]*storagev1.StorageClass) map[string]string {
	wanted, hashed := map[string]int{}, map[string]bool{}
	unique := slices.Compact(slices.Sorted(slices.Values(types)))
	for _, t := range unique {
		wanted[plainName(t)]++
		hashed[hashedName(t)] = true
	}
	names := map[string]string{}
	for _, t := range unique {
		plain := plainName(t)
		switch {
		case existing[plain] != nil:
			names[t] = hashedName(t)
			if isClassOf(existing[plain], t) {
				names[t] = plain
			}
		case isClassOf(existing[hashedName(t)], t), len(validation.IsDNS1123Subdomain(plain)) > 0, hashed[plain]:
			names[t] = hashedName(t)
		case wanted[plain] == 1, plain == classPrefix+t:
			names[t] = plain
		default:
			names[t] = hashedName(t)
		}
	}
	return names
}

// plainName is the rule of csi-driver-manila-operator and csi-operator.
func plainName(shareType string) string {
	return classPrefix + strings.ReplaceAll(strings.ToLower(shareType), "_", "-")
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// hashedName is valid for every share type, and different for different ones.
func hashedName(shareType string) string {
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(shareType)))[:8]
	readable := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(shareType), "-"), "-")
	if room := validation.DNS1123SubdomainMaxLength - len(classPrefix) - len(hash) - 1; len(readable) > room {
		readable = strings.TrimRight(readable[:room], "-")
	}
	if readable == "" {
		return classPrefix + hash
	}
	return classPrefix + readable + "-" + hash
}

// Bounds of what share types may bring about, however many names a cloud invents one after the other.
const (
	// maxClasses is how many StorageClasses of the driver may be there for the operator to add one. None is deleted because its
	// type is gone.
	maxClasses = 1000
	// maxTold is how many types a message names.
	maxTold = 5
)

// unusable says why a type gets no StorageClass, while there is room for that many.
func unusable(shareType string, room int) string {
	switch {
	case strings.ContainsFunc(shareType, func(r rune) bool { return !unicode.IsGraphic(r) }):
		return "its name has characters that cannot be printed. Ask the cloud's administrator to rename it"
	case room <= 0:
		return fmt.Sprintf("there are %d of the driver already. Delete those whose share types are gone", maxClasses)
	}
	return ""
}

// countOurs returns how many of the classes are the driver's.
func countOurs(existing map[string]*storagev1.StorageClass) int {
	count := 0
	for _, class := range existing {
		if class.Provisioner == string(Name) {
			count++
		}
	}
	return count
}

// first keeps a message short.
func first(faults []string) []string {
	if more := len(faults) - maxTold; more > 0 {
		return append(slices.Clone(faults[:maxTold]), fmt.Sprintf("and %d more", more))
	}
	return faults
}

// firstErrors does the same for errors.
func firstErrors(errs []error) []error {
	if more := len(errs) - maxTold; more > 0 {
		return append(slices.Clone(errs[:maxTold]), fmt.Errorf("and %d more", more))
	}
	return errs
}

// isClassOf tells whether class provisions shares of the type with this driver.
func isClassOf(class *storagev1.StorageClass, shareType string) bool {
	return class != nil && class.Provisioner == string(Name) && class.Parameters[typeParameter] == shareType
}

// byName indexes classes.
func byName(classes []*storagev1.StorageClass) map[string]*storagev1.StorageClass {
	index := make(map[string]*storagev1.StorageClass, len(classes))
	for _, class := range classes {
		index[class.Name] = class
	}
	return index
}
