// A module whose packages break the rules that test/architecture checks.
module example.org/house

go 1.26.0

require (
	github.com/evanphx/json-patch/v5 v5.0.0
	k8s.io/client-go v0.0.0
	sigs.k8s.io/kustomize/kyaml v0.0.0
)

replace (
	github.com/evanphx/json-patch/v5 => ./libraries/json-patch
	k8s.io/client-go => ./libraries/client-go
	sigs.k8s.io/kustomize/kyaml => ./libraries/kyaml
)
