#!/usr/bin/env bash
# Gives a real cluster new OpenStack credentials and waits until the CSI drivers run with them.
# docs/credential-rotation.md explains what happens meanwhile.
set -euo pipefail

usage="usage: $0 CLOUDS_YAML [CLOUDS_CONF]
  CLOUDS_YAML  file with the new credentials, in the entry that the cluster uses (openstack)
  CLOUDS_CONF  the same as the ini file that the cluster's Secret has beside it, if it has
KUBECTL names the client (default: oc), TIMEOUT how many seconds each step may take (default: 600)."
if (($# < 1 || $# > 2)); then
	echo >&2 "${usage}"
	exit 2
fi
kubectl=${KUBECTL:-oc}
timeout=${TIMEOUT:-600}

# Where the cluster keeps its credentials, and who reads which copy of them: namespace of the copy, its name, the workloads.
root=(-n kube-system secret/openstack-credentials)
readers=(
	"openshift-cluster-csi-drivers openstack-cloud-credentials deployment/openstack-cinder-csi-driver-controller daemonset/openstack-cinder-csi-driver-node"
	"openshift-manila-csi-driver manila-cloud-credentials deployment/openstack-manila-csi-controllerplugin daemonset/openstack-manila-csi-nodeplugin"
)

encode() { base64 <"$1" | tr -d '\n'; }

# field NAMESPACE OBJECT PATH prints a field, or nothing if there is no such object.
field() { "${kubectl}" get -n "$1" "$2" --ignore-not-found -o jsonpath="{$3}"; }

# until_true WHAT COMMAND... repeats the command until it succeeds.
until_true() {
	local what=$1 deadline=$((SECONDS + timeout))
	shift
	echo "Waiting for ${what}"
	until "$@"; do
		if ((SECONDS > deadline)); then
			echo >&2 "No ${what} within ${timeout} s"
			exit 1
		fi
		sleep 1
	done
}

is_copied() { [[ $(field "$1" "secret/$2" '.data.clouds\.yaml') == "${clouds}" ]]; }
inputs() { field "$1" "$2" '.metadata.annotations.operator\.openshift\.io/rollout-inputs'; }
lists_other_inputs() { [[ $(inputs "$1" "$2") != "$3" ]]; }

clouds=$(encode "$1")
if [[ $(field kube-system "${root[2]}" '.data.clouds\.yaml') == "${clouds}" ]]; then
	echo "${root[2]} in ${root[1]} has these credentials already"
	exit 0
fi
declare -A before
for reader in "${readers[@]}"; do
	read -r namespace _ workloads <<<"${reader}"
	for workload in ${workloads}; do
		before[${namespace}/${workload}]=$(inputs "${namespace}" "${workload}")
	done
done

echo "Changing ${root[2]} in ${root[1]}"
# From standard input: arguments are for all users of this machine to see.
"${kubectl}" patch "${root[@]}" --type=merge --patch-file=/dev/stdin \
	<<<"{\"data\":{\"clouds.yaml\":\"${clouds}\"${2:+,\"clouds.conf\":\"$(encode "$2")\"}}}"

for reader in "${readers[@]}"; do
	read -r namespace secret workloads <<<"${reader}"
	[[ -n $(field "${namespace}" "secret/${secret}" .metadata.name) ]] || continue
	until_true "the cloud credential operator to change ${namespace}/${secret}" is_copied "${namespace}" "${secret}"
	for workload in ${workloads}; do
		old=${before[${namespace}/${workload}]}
		[[ -n ${old} ]] || continue # not installed
		until_true "the operator to change ${namespace}/${workload}" lists_other_inputs "${namespace}" "${workload}" "${old}"
		"${kubectl}" rollout status -n "${namespace}" "${workload}" --timeout="${timeout}s"
	done
done
echo "The drivers run with the new credentials"
