#!/usr/bin/env bash
# Gives a real cluster new OpenStack credentials and waits until the CSI drivers run with them. It can be run again to continue, and
# with --undo to go back. docs/credential-rotation.md explains what happens meanwhile.
set -euo pipefail

usage="usage: $0 CLOUDS_YAML [CLOUDS_CONF]
       $0 --undo
  CLOUDS_YAML  file with the new credentials, in the entry that the cluster uses (openstack)
  CLOUDS_CONF  the same as the ini file that the cluster's Secret has beside it, if it has
  --undo       put back the credentials of before the last rotation
KUBECTL names the client (default: oc), TIMEOUT how many seconds each step may take (default: 900), CHECK the operator whose
command check-clouds reads CLOUDS_YAML (default: bin/manila-operator or bin/cinder-operator of this source tree)."
if (($# < 1 || $# > 2)) || [[ $1 == -* && ($1 != --undo || $# == 2) ]]; then
	echo >&2 "${usage}"
	exit 2
fi
kubectl=${KUBECTL:-oc}
timeout=${TIMEOUT:-900}

# The cluster keeps its credentials in the first Secret. The second has those that the drivers ran with before a rotation, and what
# is needed to continue it.
namespace=kube-system
root=openstack-credentials
backup=openstack-credentials-before-rotation

die() {
	echo >&2 "$*"
	exit 1
}
encode() { base64 <"$1" | tr -d '\n'; }

# field NAMESPACE OBJECT PATH prints a field, or nothing if there is no such object.
field() { "${kubectl}" get -n "$1" "$2" --ignore-not-found -o jsonpath="{$3}"; }
key() { field "$1" "secret/$2" ".data.${3/./\\.}"; }

# check FILE ends the script unless the file is a clouds.yaml.
check() {
	[[ -f $1 && -r $1 && -s $1 ]] || die "$1 is missing, empty, or cannot be read. Nothing was changed."
	local here program
	here=$(dirname "${BASH_SOURCE[0]}")
	for program in "${CHECK:-}" "${here}/../bin/manila-operator" "${here}/../bin/cinder-operator"; do
		[[ -x ${program} ]] || continue
		"${program}" check-clouds "$1" || die "Nothing was changed."
		return
	done
	grep -q '^clouds:' "$1" && grep -Eq '^[[:space:]]+auth_url:[[:space:]]*[^[:space:]]' "$1" ||
		die "$1 is no clouds.yaml: it lacks clouds: or auth_url:. Nothing was changed."
	echo "Without the operator's program only the outline of $1 was checked: make build"
}

# workloads prints each workload whose operator lists what it reads: namespace, kind/name, inputs. Users cannot create
# namespaces whose names start with openshift-; workloads with this annotation in other namespaces are not the operators'.
workloads() {
	local inputs='{.metadata.annotations.operator\.openshift\.io/rollout-inputs}'
	"${kubectl}" get deployments,daemonsets --all-namespaces \
		-o jsonpath="{range .items[*]}{.metadata.namespace} {.kind}/{.metadata.name} ${inputs}{\"\n\"}{end}" | awk 'NF == 3 && $1 ~ /^openshift-/'
}

# until_true WHAT COMMAND... repeats the command until it succeeds.
until_true() {
	local what=$1 deadline=$((SECONDS + timeout))
	shift
	echo "Waiting until ${what}"
	until "$@"; do
		((SECONDS < deadline)) ||
			die "Timed out after ${timeout} s, waiting until ${what}. Run the script again with the same file to continue, or with --undo to go back."
		sleep 1
	done
}
is_copied() { [[ $(key "$1" "$2" clouds.yaml) == "${clouds}" ]]; }
# lists NAMESPACE WORKLOAD INPUT tells whether the operator has made the workload with an input, such as secret/name=hash.
lists() { [[ ,$(field "$1" "$2" '.metadata.annotations.operator\.openshift\.io/rollout-inputs'), == *,"$3",* ]]; }
lists_another() { ! lists "$@"; }

# save keeps what the drivers run with. Credentials that not all drivers got to run with do not replace those before them.
save() {
	local verb=create old conf
	old=$(key "${namespace}" "${root}" clouds.yaml)
	conf=$(key "${namespace}" "${root}" clouds.conf)
	if [[ -n $(field "${namespace}" "secret/${backup}" .metadata.name) ]]; then
		verb=replace
		if [[ -z $(key "${namespace}" "${backup}" finished) ]]; then
			old=$(key "${namespace}" "${backup}" clouds.yaml)
			conf=$(key "${namespace}" "${backup}" clouds.conf)
		fi
	fi
	echo "Saving the credentials of before in secret/${backup} in ${namespace}"
	"${kubectl}" "${verb}" -f - <<<"{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"${backup}\",\"namespace\":\"${namespace}\"},
		\"data\":{\"clouds.yaml\":\"${old}\",\"workloads\":\"$(workloads | base64 | tr -d '\n')\"${conf:+,\"clouds.conf\":\"${conf}\"}}}"
}

# put SECRET DATA merges data. From standard input: arguments are for all users of this machine to see.
put() { "${kubectl}" patch -n "${namespace}" "secret/$1" --type=merge --patch-file=/dev/stdin <<<"{\"data\":{$2}}"; }

# follow waits until a workload runs with the credentials, if it reads them.
follow() {
	local in=$1 workload=$2 inputs input secret changed=lists_another
	IFS=, read -ra inputs <<<"$3"
	[[ -z ${undo} ]] || changed=lists # it did before the rotation
	for input in "${inputs[@]}"; do
		[[ ${input} == secret/* ]] || continue
		secret=${input#secret/}
		secret=${secret%%=*}
		[[ -n $(key "${in}" "${secret}" clouds.yaml) ]] || continue
		until_true "the cloud credential operator has copied the credentials to secret/${secret} in ${in}" is_copied "${in}" "${secret}"
		until_true "the operator has changed ${workload} in ${in}" "${changed}" "${in}" "${workload}" "${input}"
		"${kubectl}" rollout status -n "${in}" "${workload}" --timeout="${timeout}s"
	done
}

conf= undo=
if [[ $1 == --undo ]]; then
	undo=yes
	clouds=$(key "${namespace}" "${backup}" clouds.yaml)
	conf=$(key "${namespace}" "${backup}" clouds.conf)
	[[ -n ${clouds} ]] || die "There is nothing to go back to: secret/${backup} in ${namespace} is missing. Nothing was changed."
else
	check "$1"
	if (($# == 2)); then
		[[ -f $2 && -r $2 ]] && grep -q '^\[' "$2" || die "$2 is no ini file. Nothing was changed."
		conf=$(encode "$2")
	fi
	clouds=$(encode "$1")
fi

current=$(key "${namespace}" "${root}" clouds.yaml)
[[ -n ${current} ]] || die "secret/${root} in ${namespace} is missing or has no clouds.yaml. Nothing was changed."
if [[ ${current} == "${clouds}" ]]; then
	echo "secret/${root} in ${namespace} has these credentials already: continuing with what is left"
else
	[[ -n ${undo} ]] || save
	echo "Changing secret/${root} in ${namespace}"
	put "${root}" "\"clouds.yaml\":\"${clouds}\"${conf:+,\"clouds.conf\":\"${conf}\"}"
fi

saved=$(key "${namespace}" "${backup}" workloads | base64 --decode)
[[ -n ${saved} ]] || echo "Nothing to wait for: no workload says which credentials it reads"
while read -r in workload inputs; do
	[[ -z ${in} ]] || follow "${in}" "${workload}" "${inputs}" </dev/null
done <<<"${saved}"
[[ -z $(key "${namespace}" "${backup}" clouds.yaml) ]] || put "${backup}" '"finished":"eWVz"'
echo "The drivers run with these credentials. Delete secret/${backup} in ${namespace} when nobody needs those of before"
