// A module whose packages violate the rules that test/architecture checks.
module example.org/module

go 1.26.0

require (
	k8s.io/client-go v0.0.0
	sigs.k8s.io/kustomize/kyaml v0.0.0
)

replace (
	k8s.io/client-go => ./libraries/client-go
	sigs.k8s.io/kustomize/kyaml => ./libraries/kyaml
)
