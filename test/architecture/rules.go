package architecture

// Rules is what a module promises about its packages. Folders are relative to the module's root; `*` stands for one name.
type Rules struct {
	// Levels are the rooms of the house, by number; the first that matches a package counts.
	Levels []Level
	// Strangers must not import each other, not even in tests.
	Strangers []Pair
	// Owners are the only importers of certain libraries.
	Owners []Owner
	// Programs must not link certain packages.
	Programs []Program
	// Environment are the folders that may read the environment.
	Environment []string
	// Lookups are the files that may pass os.LookupEnv on without calling it.
	Lookups []string
	// Stateless are the folders without init functions and without variables that can change.
	Stateless []string
	// Doors are names that only some folders may use.
	Doors []Door
	// Shipped are the folders where the rules about doors and about the environment hold.
	Shipped []string
}

// Level is a room and its number: a package imports only rooms with a lower one.
type Level struct {
	Number int
	Folder string
}

// Pair is a folder that must not import another.
type Pair struct{ From, To string }

// Owner is the folder that may import a library.
type Owner struct{ Library, Folder string }

// Door is a set of fields and functions, and the folders whose code may use them: selectors with these names, of any type.
type Door struct {
	Names   []string
	Folders []string
	// Why ends the message.
	Why string
}

// Program is a folder of mains and what they must not link: import paths, or folders of the module after `./`.
type Program struct {
	Folder string
	Not    []string
}

// House returns the rules of this repository. docs/architecture.md explains them; changing a level needs a decision record.
func House() Rules {
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
		Strangers: []Pair{
			{"pkg/operator", "pkg/drivers/*"},
			{"pkg/drivers/*", "pkg/operator"},
			{"pkg/drivers/*", "pkg/drivers/*"},
		},
		Owners: []Owner{
			{"sigs.k8s.io/kustomize/kyaml", "pkg/patch"},
			{"github.com/evanphx/json-patch", "pkg/patch"},
			{"gopkg.in/evanphx/json-patch.v4", "pkg/patch"},
			{"github.com/openshift/client-go/config", "pkg/guest"},
			{"github.com/openshift/client-go/operator/informers", "pkg/guest"},
			{"github.com/openshift/client-go/operator/listers", "pkg/guest"},
			{"github.com/openshift/library-go/pkg/operator/genericoperatorclient", "pkg/cluster"},
		},
		Programs: []Program{
			{"cmd/*-operator", []string{
				"sigs.k8s.io/kustomize/kyaml", "./pkg/patch", "./pkg/generator", "./pkg/cluster/clustertest", "./test",
				"testing", "net/http/httptest",
			}},
			{"cmd/asset-generator", []string{"./pkg/drivers", "./pkg/operator", "./pkg/plugin", "./test", "testing", "k8s.io/client-go"}},
		},
		Doors:       doors(),
		Environment: []string{"pkg/settings"},
		Lookups:     []string{"pkg/operator/command.go"},
		Stateless:   []string{"pkg", "cmd"},
		Shipped:     []string{"pkg", "cmd", "assets"},
	}
}

// doors are the names that let unchecked values of a hosted cluster in.
func doors() []Door {
	return []Door{
		{
			Names:   []string{"ObservedConfig", "UnsupportedConfigOverrides", "InfrastructureName", "PlatformStatus", "TLSSecurityProfile", "Ciphers"},
			Folders: []string{"pkg/guest"},
			Why:     "the guest's administrator writes it, and pkg/guest checks it",
		},
		{
			Names:   []string{"GetStore", "GetIndexer"},
			Folders: []string{"pkg/guest", "pkg/cluster"},
			Why:     "caches hold what nobody has checked",
		},
		{
			Names: []string{
				"NewCSIDriverControllerServiceController", "NewCSIConfigObserverController", "WithPlaceholdersHook", "WithReplicasHook",
				"WithControlPlaneTopologyHook",
			},
			Why: "library-go takes what the guest says as it is",
		},
	}
}
