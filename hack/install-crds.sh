#!/usr/bin/env bash
# Installs, with kubectl, the CustomResourceDefinitions of CSI-Addons, except those that somebody
# else or a later release installed. `make deploy` calls it. assets/crds and assets/snapshots are
# kustomizations of the others that a cluster without OpenShift needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "$*" != --csi-addons ]; then
	echo >&2 "usage: $0 --csi-addons
For Kubernetes without OpenShift run kubectl apply -k assets/crds; for snapshots, assets/snapshots."
	exit 2
fi

# get CRD TEMPLATE prints a field of a CRD, or nothing without the CRD.
get() { kubectl get crd "$1" --ignore-not-found -o jsonpath="$2"; }

# The annotation with the revision of our CRDs of CSI-Addons.
revision='csi-addons.openstack.org/revision'

# apply_csi_addons CRD FILE installs a CRD, unless the cluster has one of somebody else or of a
# later release. Server-side apply fails if another program has changed our CRD.
apply_csi_addons() {
	local name found ours
	ours=$(sed -n "s|^ *${revision}: \"\(.*\)\"$|\1|p" "$2")
	name=$(get "$1" '{.metadata.name}')
	found=$(get "$1" "{.metadata.annotations.${revision//./\\.}}")
	if [ -n "${name}" ] && [ -z "${found}" ]; then
		echo "$1 stays: another program has installed it"
	elif [[ ! ${found:-0} =~ ^[0-9]+$ ]]; then
		echo "$1 stays: its annotation ${revision} is ${found}, which is no number"
	elif [ "${found:-0}" -gt "${ours}" ]; then
		echo "$1 stays: a later release has installed it (revision ${found}, not ${ours})"
	else
		kubectl apply --server-side --field-manager=csi-addons-openstack -f "$2"
	fi
	case " $(get "$1" '{.spec.versions[?(@.served==true)].name}') " in
	*' v1alpha1 '*) ;;
	*)
		echo >&2 "$1 does not serve the version v1alpha1, which the programs of CSI-Addons use"
		exit 1
		;;
	esac
}

crds=()
for file in assets/csi-addons/crd/generated/csiaddons.openshift.io_*.yaml; do
	crd=${file##*/csiaddons.openshift.io_}
	crds+=("${crd%.yaml}.csiaddons.openshift.io")
	apply_csi_addons "${crds[-1]}" "${file}"
done
kubectl wait --for=condition=Established --timeout=60s "${crds[@]/#/crd/}"
