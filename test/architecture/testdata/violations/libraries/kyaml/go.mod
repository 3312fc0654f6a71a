module sigs.k8s.io/kustomize/kyaml

go 1.26.0
