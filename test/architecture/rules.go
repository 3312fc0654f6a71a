package architecture

// Rules are the rules about the packages of a module. Folders are relative to the root of the
// module; `*` matches one path element.
type Rules struct {
	// Levels are the levels of folders. The first that matches a package counts.
	Levels []Level
	// Forbidden are imports that are forbidden in tests too.
	Forbidden []Import
	// Programs must not link certain packages.
	Programs []Program
	// Restricted are names that only some folders may use. They apply to the Shipped folders.
	Restricted []Restriction
	Shipped    []string
}

// Level is the level of a folder. A package imports only packages of lower levels.
type Level struct {
	Number int
	Folder string
}

// Import is an import of one folder by another.
type Import struct{ From, To string }

// Restriction lists fields and functions, and the only folders whose code may use them: selectors
// with these names, of any type.
type Restriction struct {
	Names   []string
	Folders []string
	// Reason is the end of the message.
	Reason string
}

// Program is a folder of main packages and what they must not link: import paths, or folders of the
// module after `./`.
type Program struct {
	Folder string
	Not    []string
}

// Repository returns the rules of this repository; see docs/architecture.md. A change of a level
// needs a decision record.
func Repository() Rules {
	return Rules{
		Levels: []Level{
			{0, "assets"},
			{0, "pkg/flavour"},
			{0, "pkg/patch"},
			{0, "pkg/openstack"},
			{0, "pkg/version"},
			{0, "pkg/host"},
			{0, "pkg/storageclass"},
			{1, "pkg/guest"},
			{1, "pkg/settings"},
			{1, "pkg/bundle"},
			{2, "pkg/cluster"},
			{2, "pkg/generator"},
			{3, "pkg/cloudprobe"},
			{3, "pkg/credential"},
			{3, "pkg/hook"},
			{4, "pkg/plugin"},
			{5, "pkg/operator"},
			{5, "pkg/drivers/*"},
			{6, "cmd/*"},
			{3, "hack/new-driver/scaffold"},
			{6, "hack/*"},
			{7, "test/openstack"},
			{8, "test/*"},
		},
		Forbidden: []Import{
			{"pkg/operator", "pkg/drivers/*"},
			{"pkg/drivers/*", "pkg/operator"},
			{"pkg/drivers/*", "pkg/drivers/*"},
		},
		Programs: []Program{
			{"cmd/*-operator", []string{
				"sigs.k8s.io/kustomize/kyaml", "./pkg/patch", "./pkg/generator", "./pkg/cluster/clustertest",
				"./test",
				"testing", "net/http/httptest",
			}},
			{"cmd/asset-generator", []string{
				"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./test",
				"testing", "k8s.io/client-go",
			}},
		},
		Restricted: restricted(),
		Shipped:    []string{"pkg", "cmd", "assets"},
	}
}

// restricted returns the names that give access to unchecked values of a guest cluster.
func restricted() []Restriction {
	return []Restriction{
		{
			Names: []string{
				"ObservedConfig", "UnsupportedConfigOverrides", "InfrastructureName",
				"PlatformStatus", "TLSSecurityProfile", "Ciphers",
			},
			Folders: []string{"pkg/guest"},
			Reason:  "the administrator of the guest cluster writes it, and pkg/guest checks it",
		},
		{
			Names:   []string{"GetStore", "GetIndexer"},
			Folders: []string{"pkg/guest", "pkg/cluster"},
			Reason:  "caches contain unchecked values",
		},
		{
			Names: []string{
				"NewCSIDriverControllerServiceController", "NewCSIConfigObserverController",
				"WithPlaceholdersHook", "WithReplicasHook",
				"WithControlPlaneTopologyHook",
			},
			Reason: "library-go does not check values of the guest cluster",
		},
	}
}
