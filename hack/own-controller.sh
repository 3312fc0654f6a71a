#!/usr/bin/env bash
# Fails if the Deployment of the controller of CSI-Addons belongs to another program. `make deploy`
# would replace it and `make undeploy` delete it, without removing the finalizers that it adds.
set -euo pipefail

namespace=csi-addons-system deployment=csi-addons-controller-manager
found=$(kubectl get deployment -n "${namespace}" "${deployment}" --ignore-not-found \
	-o jsonpath='{.metadata.name} {.spec.template.spec.containers[*].command}')
case "${found}" in
'' | *'"csi-addons-controller"'*) ;;
*)
	echo >&2 "The Deployment ${namespace}/${deployment} is not that of this project. Either
- keep its controller, which can call the sidecars of Cinder and Manila, too, or
- remove it: docs/csi-addons/install.md, \"Change the controller\", says how. Then run make again."
	exit 1
	;;
esac
