// Package version describes the build of a program. Its callers are pkg/operator and pkg/kubectl.
package version

import (
	"cmp"
	"runtime"
	"runtime/debug"

	apimachinery "k8s.io/apimachinery/pkg/version"
)

// release is the version of a release, which the linker sets.
var release string //nolint:gochecknoglobals // the linker sets nothing else

// Get returns the version of the running binary: that of the release, or of its module, and the
// commit that the Go tool recorded at build time.
func Get() apimachinery.Info {
	info := apimachinery.Info{
		GoVersion: runtime.Version(), Compiler: runtime.Compiler,
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	info.GitVersion = build.Main.Version
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.GitCommit = s.Value
		case "vcs.time":
			info.BuildDate = s.Value
		case "vcs.modified":
			info.GitTreeState = map[string]string{"true": "dirty", "false": "clean"}[s.Value]
		}
	}
	info.GitVersion = cmp.Or(release, info.GitVersion, "unknown")
	return info
}

// Page returns the URL of a file of the repository, such as docs/runbooks.md, as it is in the
// release, or on the branch main if the binary is not that of a release.
func Page(file string) string {
	return "https://github.com/openstack-csi/csi-operator/blob/" + cmp.Or(release, "main") + "/" + file
}
