// Package bill makes the software bill of materials (SBOM) of a program from the build information
// that Go writes into it. Its callers are hack/sbom and hack/images.
package bill

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// MediaType is the media type of an SBOM.
const MediaType = "application/vnd.cyclonedx+json"

// OfProgram returns the SBOM of the program in a file, in the format CycloneDX. The same program
// always has the same SBOM.
func OfProgram(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("reading the build information of Go: %w", err)
	}
	bom, err := describe(info, sha256.Sum256(content))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).
		SetPretty(true).SetEscapeHTML(false)
	// Fewer tools read later versions of the format.
	if err := encoder.EncodeVersion(bom, cyclonedx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("encoding the SBOM: %w", err)
	}
	return out.Bytes(), nil
}

// describe returns the SBOM of a program with the SHA-256 digest. It contains neither a time nor a
// random number, so that the same program has the same SBOM.
func describe(info *debug.BuildInfo, digest [sha256.Size]byte) (*cyclonedx.BOM, error) {
	program := component(cyclonedx.ComponentTypeApplication, path.Base(info.Path),
		info.Main.Version, packageURL(info.Main.Path, info.Main.Version))
	program.PackageURL += "#" + strings.TrimPrefix(info.Path, info.Main.Path+"/")
	program.Hashes = &[]cyclonedx.Hash{
		{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])},
	}
	program.Properties = settings(info)

	modules := []cyclonedx.Component{standardLibrary(info)}
	for _, module := range info.Deps {
		module = cmp.Or(module.Replace, module)
		if module.Version == "" {
			return nil, fmt.Errorf("a folder replaces a module: build without the replacement by %s",
				module.Path)
		}
		library := component(cyclonedx.ComponentTypeLibrary, module.Path, module.Version,
			packageURL(module.Path, module.Version))
		library.Properties = &[]cyclonedx.Property{{Name: "go:sum", Value: module.Sum}}
		modules = append(modules, library)
	}

	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &program}
	bom.Components = &modules
	return bom, nil
}

func standardLibrary(info *debug.BuildInfo) cyclonedx.Component {
	// After a space, the version names experiments of the toolchain.
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	return component(cyclonedx.ComponentTypeLibrary, "stdlib", version,
		packageURL("stdlib", version))
}

// component returns a component that other parts of an SBOM reference by its package URL.
func component(
	kind cyclonedx.ComponentType, name, version, purl string,
) cyclonedx.Component {
	return cyclonedx.Component{
		BOMRef: purl, Type: kind, Name: name, Version: version, PackageURL: purl,
	}
}

// packageURL returns the package URL of a version of a module. The specification of package URLs
// demands lower case.
func packageURL(module, version string) string {
	purl := "pkg:golang/" + strings.ToLower(module)
	if version == "" || version == "(devel)" {
		return purl
	}
	return purl + "@" + url.QueryEscape(version)
}

// settings returns the version of Go and the flags of the build, which a reproduction needs.
func settings(info *debug.BuildInfo) *[]cyclonedx.Property {
	properties := []cyclonedx.Property{{Name: "go:version", Value: info.GoVersion}}
	for _, setting := range info.Settings {
		properties = append(properties, cyclonedx.Property{
			Name: "go:build:" + setting.Key, Value: setting.Value,
		})
	}
	return &properties
}
