#!/usr/bin/env bash
# Writes new OpenStack credentials into a cluster and waits until the CSI drivers run with them. Run
# it again to continue, or with --undo to go back. docs/credential-rotation.md describes the steps.
set -euo pipefail

usage="usage: $0 CLOUDS_YAML [CLOUDS_CONF]
       $0 --undo
  CLOUDS_YAML  file with the new credentials, in the entry that the cluster uses (openstack)
  CLOUDS_CONF  the same as an ini file, if the Secret of the cluster contains one
  --undo       restore the credentials from before the last rotation
KUBECTL sets the client (default: oc, or else kubectl), TIMEOUT the time limit of each step in
seconds (default: 900), CHECK the operator whose command check-clouds reads CLOUDS_YAML (default:
bin/manila-operator or bin/cinder-operator of this source tree)."
if (($# < 1 || $# > 2)) || [[ $1 == -* && ($1 != --undo || $# == 2) ]]; then
	echo >&2 "${usage}"
	exit 2
fi
timeout=${TIMEOUT:-900}

# The first Secret contains the credentials of the cluster. The second contains the credentials from
# before a rotation, and the state that is needed to continue the rotation.
namespace=kube-system
root=openstack-credentials
backup=openstack-credentials-before-rotation
# The only path of a CA that the cloud credential operator does not replace in the first Secret.
cacert=/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem

die() {
	echo >&2 "$*"
	exit 1
}
kubectl=$(command -v "${KUBECTL:-oc}" || command -v "${KUBECTL:-kubectl}") ||
	die "There is no ${KUBECTL:-oc or kubectl}. Install it, or set KUBECTL to the path of a client." \
		"Nothing was changed."
encode() { base64 <"$1" | tr -d '\n'; }

# field NAMESPACE OBJECT PATH prints a field, or nothing if there is no such object.
field() { "${kubectl}" get -n "$1" "$2" --ignore-not-found -o jsonpath="{$3}"; }
key() { field "$1" "secret/$2" ".data.${3/./\\.}"; }

# check FILE exits unless the file is a valid clouds.yaml.
check() {
	[[ -f $1 && -r $1 && -s $1 ]] ||
		die "$1 is missing, empty, or cannot be read. Nothing was changed."
	! grep -E "^[^#]*\\<cacert[\"']?:" "$1" |
		grep -Eqv "cacert[\"']?:[[:space:]]*[\"']?${cacert}([\"',}[:space:]]|\$)" ||
		die "$1 contains a cacert that the cloud credential operator would replace. Change it to" \
			"\"cacert: ${cacert}\", or remove it if the cloud needs no CA. Nothing was changed."
	local here program
	here=$(dirname "${BASH_SOURCE[0]}")
	for program in "${CHECK:-}" "${here}/../bin/manila-operator" "${here}/../bin/cinder-operator"; do
		[[ -x ${program} ]] || continue
		"${program}" check-clouds "$1" || die "Nothing was changed."
		return
	done
	grep -q '^clouds:' "$1" && grep -Eq '^[[:space:]]+auth_url:[[:space:]]*[^[:space:]]' "$1" ||
		die "$1 is not a clouds.yaml: clouds: or auth_url: is missing. Nothing was changed."
	echo "Only the outline of $1 was checked, because no operator is built (make build)"
}

# workloads prints namespace, kind/name and rollout inputs of each workload with the annotation. It
# reads namespaces openshift-* only: users can add the annotation in other namespaces.
workloads() {
	local inputs='{.metadata.annotations.operator\.openshift\.io/rollout-inputs}'
	local line="{.metadata.namespace} {.kind}/{.metadata.name} ${inputs}"
	"${kubectl}" get deployments,daemonsets --all-namespaces \
		-o jsonpath="{range .items[*]}${line}{\"\n\"}{end}" | awk 'NF == 3 && $1 ~ /^openshift-/'
}

# until_true WHAT COMMAND... repeats the command until it succeeds.
until_true() {
	local what=$1 deadline=$((SECONDS + timeout))
	shift
	echo "Waiting until ${what}"
	until "$@"; do
		((SECONDS < deadline)) ||
			die "Timed out after ${timeout} s, waiting until ${what}." \
				"Run the script again with the same file to continue, or with --undo to go back."
		sleep 1
	done
}
# is_copied NAMESPACE SECRET compares with the first Secret as it is now, because the cloud
# credential operator may rewrite it.
is_copied() {
	local now
	now=$(key "${namespace}" "${root}" clouds.yaml)
	[[ -n ${now} && $(key "$1" "$2" clouds.yaml) == "${now}" ]]
}
# lists NAMESPACE WORKLOAD INPUT succeeds if the annotation of the workload contains the input, such
# as secret/name=hash.
lists() {
	local inputs
	inputs=$(field "$1" "$2" '.metadata.annotations.operator\.openshift\.io/rollout-inputs')
	[[ ,${inputs}, == *,"$3",* ]]
}
lists_another() { ! lists "$@"; }

# save stores the present credentials of the drivers, the workloads with these credentials, and the
# workloads as they are now. It keeps the first two if the last rotation did not finish.
save() {
	local verb=create old conf now first
	old=$(key "${namespace}" "${root}" clouds.yaml)
	conf=$(key "${namespace}" "${root}" clouds.conf)
	now=$(workloads | base64 | tr -d '\n')
	first=${now}
	if [[ -n $(field "${namespace}" "secret/${backup}" .metadata.name) ]]; then
		verb=replace
		if [[ -z $(key "${namespace}" "${backup}" finished) ]]; then
			old=$(key "${namespace}" "${backup}" clouds.yaml)
			conf=$(key "${namespace}" "${backup}" clouds.conf)
			first=$(key "${namespace}" "${backup}" workloads)
		fi
	fi
	local second=${conf:+"clouds.conf: \"${conf}\""}
	echo "Saving the previous credentials in secret/${backup} in ${namespace}"
	"${kubectl}" "${verb}" -f - <<-END
		apiVersion: v1
		kind: Secret
		metadata: {name: "${backup}", namespace: "${namespace}"}
		data:
		  clouds.yaml: "${old}"
		  workloads: "${first}"
		  latest: "${now}"
		  ${second}
	END
}

# put SECRET DATA merges data. It uses standard input, because all users of the machine can see
# arguments.
put() {
	"${kubectl}" patch -n "${namespace}" "secret/$1" --type=merge --patch-file=/dev/stdin \
		<<<"{\"data\":{$2}}"
}

# follow waits until a workload runs with the credentials, if they are among its rollout inputs.
follow() {
	local in=$1 workload=$2 inputs input secret changed=lists_another
	local copied="the cloud credential operator has copied the credentials to"
	IFS=, read -ra inputs <<<"$3"
	[[ -z ${undo} ]] || changed=lists # the hash from before the rotation
	for input in "${inputs[@]}"; do
		[[ ${input} == secret/* ]] || continue
		secret=${input#secret/}
		secret=${secret%%=*}
		[[ -n $(key "${in}" "${secret}" clouds.yaml) ]] || continue
		until_true "${copied} secret/${secret} in ${in}" is_copied "${in}" "${secret}"
		until_true "the operator has changed ${workload} in ${in}" \
			"${changed}" "${in}" "${workload}" "${input}"
		"${kubectl}" rollout status -n "${in}" "${workload}" --timeout="${timeout}s"
	done
}

# returns succeeds if the file contains the saved credentials, and the last rotation did not finish.
returns() {
	[[ -z $(key "${namespace}" "${backup}" finished) &&
		$(encode "$1") == "$(key "${namespace}" "${backup}" clouds.yaml)" ]]
}

conf= undo= followed=latest
[[ $1 == --undo ]] || check "$1"
if (($# == 2)); then
	[[ -f $2 && -r $2 ]] && grep -q '^\[' "$2" || die "$2 is not an ini file. Nothing was changed."
	conf=$(encode "$2")
fi
current=$(key "${namespace}" "${root}" clouds.yaml)
[[ -n ${current} ]] ||
	die "secret/${root} in ${namespace} is missing or contains no clouds.yaml: no cloud" \
		"credential operator maintains the credentials of this cluster. Nothing was changed. On" \
		"Kubernetes without OpenShift follow \"Rotate the credentials\" in docs/kubernetes.md, on" \
		"HyperShift and in manual mode docs/credential-rotation.md."
if [[ $1 == --undo ]] || returns "$1"; then
	undo=yes followed=workloads
	clouds=$(key "${namespace}" "${backup}" clouds.yaml)
	conf=$(key "${namespace}" "${backup}" clouds.conf)
	[[ -n ${clouds} ]] ||
		die "There is nothing to go back to: secret/${backup} in ${namespace} is missing." \
			"Nothing was changed."
else
	clouds=$(encode "$1")
fi

if [[ ${current} == "${clouds}" ]]; then
	echo "secret/${root} in ${namespace} contains these credentials already; continuing"
else
	if [[ -n ${undo} ]]; then
		put "${backup}" '"finished":null' # until the drivers have the saved credentials again
	else
		save
	fi
	echo "Changing secret/${root} in ${namespace}"
	put "${root}" "\"clouds.yaml\":\"${clouds}\"${conf:+,\"clouds.conf\":\"${conf}\"}"
fi

saved=$(key "${namespace}" "${backup}" "${followed}" | base64 --decode)
# Earlier versions of this script did not write the key latest.
[[ -n ${saved} ]] || saved=$(key "${namespace}" "${backup}" workloads | base64 --decode)
[[ -n ${saved} ]] ||
	echo "No workload lists a Secret with credentials, so there is nothing to wait for"
while read -r in workload inputs; do
	[[ -z ${in} ]] || follow "${in}" "${workload}" "${inputs}" </dev/null
done <<<"${saved}"
[[ -z $(key "${namespace}" "${backup}" clouds.yaml) ]] || put "${backup}" '"finished":"eWVz"'
echo "The drivers run with these credentials." \
	"Delete secret/${backup} in ${namespace} when you no longer need the previous ones"
