package main

import "slices"

// source is a module that a list is extracted from.
type source struct {
	// list is the file of the list below pkg/kubectl/meaning.
	list, module string
	// versions are those of the images of the releases that the operators install, and the newest,
	// as far as a proxy serves them.
	versions []string
	// folders contain the packages, with those below.
	folders []string
	// functions restricts the functions, if it is set. It is a regular expression.
	functions string
	extract   func(root string, s source) (map[string]bool, error)
}

// sources returns the sources of all lists. Versions of OpenShift 4.20 to 5.1 are those of its
// branches of the components.
func sources() []source { return slices.Concat(drivers(), events(), refusers(), classes()) }

const (
	kubernetes  = "k8s.io/kubernetes"
	kubeVersion = "v1.36.2"
	staging     = "v0.36.2"
	cloud       = "k8s.io/cloud-provider-openstack"
	csi         = "github.com/kubernetes-csi/"
	universe    = "testdata/universe/"
)

func cloudVersions() []string { return []string{"v1.33.0", "v1.34.1", "v1.35.0", "v1.36.0"} }

func drivers() []source {
	return []source{
		{
			list: universe + "cinder.txt", module: cloud, versions: cloudVersions(), extract: driverErrors,
			folders: []string{
				"pkg/csi/cinder", "pkg/util/mount", "pkg/util/metadata", "pkg/util/blockdevice", "pkg/client",
			},
			functions: `^([^N]|N[^e]|Ne[^w]|NewOpenStackClient|NewBlockStorage|NewCompute)`,
		},
		{
			list: universe + "manila.txt", module: cloud, versions: cloudVersions(), extract: driverErrors,
			folders: []string{"pkg/csi/manila", "pkg/client"},
		},
	}
}

func events() []source {
	const list = universe + "events.txt"
	return []source{
		{
			list: list, module: kubernetes, versions: []string{kubeVersion}, extract: warnings,
			folders: []string{
				"pkg/kubelet", "pkg/scheduler", "pkg/volume", "pkg/controller/volume",
				"pkg/controller/statefulset", "pkg/controller/replicaset", "pkg/controller/daemon",
				"pkg/controller/job", "pkg/controller/controller_utils.go",
			},
		},
		{
			list: list, module: "sigs.k8s.io/sig-storage-lib-external-provisioner/v13",
			versions: []string{"v13.0.0"}, folders: []string{"controller"}, extract: warnings,
		},
		{
			list: list, module: csi + "external-resizer/v2", versions: []string{"v2.2.0"},
			folders: []string{"pkg"}, extract: warnings,
		},
		{
			list: list, module: csi + "external-snapshotter/v8", versions: []string{"v8.5.0"},
			folders: []string{"pkg"}, extract: warnings,
		},
	}
}

func refusers() []source {
	const list = universe + "admission.txt"
	return []source{
		{
			list: list, module: "k8s.io/apiserver", versions: []string{staging}, extract: refusals,
			folders:   []string{"pkg/admission/plugin/resourcequota"},
			functions: "^(checkRequest|CheckRequest|Evaluate|checkQuotas)$",
		},
		{
			list: list, module: kubernetes, versions: []string{kubeVersion}, extract: refusals,
			folders: []string{
				"plugin/pkg/admission/limitranger", "plugin/pkg/admission/serviceaccount",
				"plugin/pkg/admission/priority",
			},
			functions: "^([a-z].*Constraint|Admit|Validate|limit.*|admitPod)$",
		},
		{
			list: list, module: kubernetes, versions: []string{kubeVersion}, extract: refusals,
			folders: []string{"pkg/apis/core/validation", "pkg/apis/storage/validation"},
			functions: "PersistentVolumeClaim|StorageClass|validateProvisioner|validateParameters|" +
				"AllowedTopolog|ResourceRequirements|validateDataSource",
		},
		{
			list: list, module: "k8s.io/pod-security-admission", versions: []string{staging},
			folders: []string{"policy"}, extract: refusals,
		},
	}
}

func classes() []source {
	const list = "parameters.txt"
	return []source{
		{
			list: list, module: cloud, versions: cloudVersions(), extract: parameters,
			folders: []string{"pkg/csi/cinder", "pkg/csi/manila/options"},
		},
		{
			list: list, module: csi + "external-provisioner/v6", versions: []string{"v6.3.0"},
			folders: []string{"pkg/controller"}, extract: parameters,
		},
		{
			list: list, module: csi + "external-snapshotter/v8", versions: []string{"v8.5.0"},
			folders: []string{"pkg/utils"}, extract: parameters,
		},
	}
}
