{{/* Removes null at any depth, and adds the parts of the values that are missing. */}}
{{- define "openstack-csi.prepare" -}}
{{- include "openstack-csi.clean" .Values }}
{{- range list "cinder" "credentials" "csiAddons" "global" "images" "manila" "monitoring" "proxy" "snapshotController" }}
{{- if not (hasKey $.Values .) }}{{ $_ := set $.Values . dict }}{{ end }}
{{- end }}
{{- with .Values.global.imageRegistry }}
{{- if not $.Values.images.mirror }}{{ $_ := set $.Values.images "mirror" . }}{{ end }}
{{- end }}
{{- if not .Values.images.pullSecrets }}{{ $_ := set .Values.images "pullSecrets" (.Values.global.imagePullSecrets | default list) }}{{ end }}
{{- if not .Values.credentials.secret }}{{ $_ := set .Values.credentials "secret" "openstack-credentials" }}{{ end }}
{{- end }}

{{/* What comes before the name of a value in a chart that contains this one, such as "storage.". */}}
{{- define "openstack-csi.at" -}}
{{- if not .Chart.IsRoot }}{{ .Chart.Name }}.{{ end }}
{{- end }}

{{/* Removes null from a value, at any depth. */}}
{{- define "openstack-csi.clean" -}}
{{- if kindIs "map" . }}
{{- range $name, $value := . }}
{{- if kindIs "invalid" $value }}{{ $_ := unset $ $name }}{{ end }}
{{- include "openstack-csi.clean" $value }}
{{- end }}
{{- else if kindIs "slice" . }}
{{- range . }}{{ include "openstack-csi.clean" . }}{{ end }}
{{- end }}
{{- end }}

{{/* The names of the drivers that are enabled, separated by "-". */}}
{{- define "openstack-csi.drivers" -}}
{{- $enabled := list }}
{{- range list "cinder" "manila" }}
{{- if (get $.Values .).enabled }}{{ $enabled = append $enabled . }}{{ end }}
{{- end }}
{{- join "-" $enabled }}
{{- end }}

{{/* The names of the Secrets with credentials of these drivers, separated by " ". */}}
{{- define "openstack-csi.secrets" -}}
{{- $names := list }}
{{- range splitList "-" (include "openstack-csi.drivers" .) | compact }}
{{- $names = append $names ((get $.Values .).credentialsSecret | default $.Values.credentials.secret) }}
{{- end }}
{{- $names | uniq | sortAlpha | join " " }}
{{- end }}

{{/* The namespaces in which DaemonSets (nodes) of a driver run, separated by " ". */}}
{{- define "openstack-csi.namespaces" -}}
{{- $namespaces := list }}
{{- range .nodes }}
{{- $labels := .metadata.labels | default dict }}
{{- if and (eq (get $labels "app.kubernetes.io/part-of") "openstack-csi")
      (eq (get $labels "app.kubernetes.io/instance") (printf "openstack-%s" $.driver)) }}
{{- $namespaces = append $namespaces .metadata.namespace }}
{{- end }}
{{- end }}
{{- $namespaces | uniq | join " " }}
{{- end }}

{{/*
Fails if the cluster has an object of a part from another installation, or another snapshot
controller, or lacks the definition of the object. What was installed with our files is not another's;
of the objects for snapshots only the selector tells.
*/}}
{{- define "openstack-csi.mustBeOurs" -}}
{{- $object := .object }}
{{- $refused := "" }}
{{- if has $object.kind (list "CustomResourceDefinition" "Deployment") }}
{{- with lookup $object.apiVersion $object.kind ($object.metadata.namespace | default "") $object.metadata.name }}
{{- $marks := .metadata.annotations | default dict }}
{{- $release := printf "%s/%s" (get $marks "meta.helm.sh/release-namespace") (get $marks "meta.helm.sh/release-name") }}
{{- $isOurs := or (eq $release (printf "%s/%s" $.root.Release.Namespace $.root.Release.Name))
      (hasKey $marks "csi-addons.openstack.org/revision")
      (eq (dig "metadata" "labels" "app.kubernetes.io/part-of" "" .) "openstack-csi")
      (and (eq $.part "snapshotController") (eq $release "/")
        (eq (dig "spec" "selector" dict $object | toJson) (dig "spec" "selector" dict . | toJson))) }}
{{- if not $isOurs }}
{{- $refused = printf "%s %s is of another installation" .kind .metadata.name }}
{{- end }}
{{- else }}
{{- if and (eq $object.kind "Deployment") (eq .part "snapshotController") }}
{{- range $other := (lookup "apps/v1" "Deployment" "" "").items }}
{{- range .spec.template.spec.containers }}
{{- if contains "snapshot-controller" .image }}
{{- $refused = printf "Deployment %s/%s is a snapshot controller" $other.metadata.namespace $other.metadata.name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- else if and (eq $object.kind "PrometheusRule") (lookup "v1" "Namespace" "" "kube-system")
      (not (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "prometheusrules.monitoring.coreos.com")) }}
{{- $refused = "CustomResourceDefinition prometheusrules.monitoring.coreos.com of Prometheus Operator is missing" }}
{{- end }}
{{- with $refused }}{{ fail (printf "%s: leave %s.enabled, or set it to false" . $.part) }}{{ end }}
{{- end }}

{{/* The text of a manifest in the namespace of the release. */}}
{{- define "openstack-csi.text" -}}
{{- $text := regexReplaceAll "(?m)namespace: openstack-csi$" .text (printf "namespace: %s" .namespace) }}
{{- $text = replace ".openstack-csi.svc" (printf ".%s.svc" .namespace) $text }}
{{- replace ".openstack.org=openstack-csi" (printf ".openstack.org=%s" .namespace) $text }}
{{- end }}

{{/*
The image of a manifest (name) by the values: those of this project have no registry there. A mirror
replaces the host of each.
*/}}
{{- define "openstack-csi.image" -}}
{{- $values := .root.Values.images }}
{{- $image := .name }}
{{- if not (contains "/" $image) }}
{{- with get ($values.digests | default dict) .name }}{{ $image = printf "%s@%s" $image . }}
{{- else }}{{ with $values.tag }}{{ $image = printf "%s:%s" $image . }}{{ end }}
{{- end }}
{{- if $values.registry }}{{ $image = printf "%s/%s" $values.registry $image }}
{{- else if not $values.mirror }}
{{- $at := include "openstack-csi.at" .root }}
{{- fail (printf "a clone names no registry: set %simages.registry and %simages.tag for %s, or %s"
      $at $at .name "install the chart of a release") }}
{{- end }}
{{- end }}
{{- with $values.mirror }}{{ . }}/{{ regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $image "" }}
{{- else }}{{ $image }}
{{- end }}
{{- end }}

{{/* References to the Secrets for images, as JSON. */}}
{{- define "openstack-csi.pullSecrets" -}}
{{- $secrets := list }}
{{- range .Values.images.pullSecrets }}
{{- if kindIs "string" . }}{{ $secrets = append $secrets (dict "name" .) }}
{{- else }}{{ $secrets = append $secrets (pick . "name") }}{{ end }}
{{- end }}
{{- toJson $secrets }}
{{- end }}

{{/*
The objects in files that match a pattern, changed by the values of their part. Each object occurs
once, also if several drivers share it. What other objects or the driver itself still need after an
uninstallation is kept: CustomResourceDefinitions, and the namespace of CSI-Addons.
*/}}
{{- define "openstack-csi.objects" -}}
{{- range $data := .root.Files.Glob .pattern }}
{{- range $text := regexSplit "(?m)^---\\n" (toString $data) -1 }}
{{- $object := fromYaml (include "openstack-csi.text" (dict "text" $text "namespace" $.root.Release.Namespace)) }}
{{- with $object.metadata }}
{{- $id := list $object.kind .namespace .name | join "/" }}
{{- if not (hasKey $.seen $id) }}
{{- $_ := set $.seen $id true }}
{{- if $.part }}{{ include "openstack-csi.mustBeOurs" (merge (dict "object" $object) $) }}{{ end }}
{{- if has $object.kind (list "CustomResourceDefinition" "Namespace") }}
{{- $_ := set . "annotations" (set (.annotations | default dict) "helm.sh/resource-policy" "keep") }}
{{- else if hasPrefix "monitoring." $object.apiVersion }}
{{- with $.values.labels }}{{ $_ := set $object.metadata "labels" (merge $object.metadata.labels .) }}{{ end }}
{{- else if hasPrefix "csi.openstack.org/" $object.apiVersion }}
{{- /* What is not a value belongs to whoever sets it. Later values win. */}}
{{- $spec := $object.spec }}
{{- with include "openstack-csi.pullSecrets" $.root | fromJsonArray }}
{{- $_ := dict "controller" (dict "imagePullSecrets" .) "node" (dict "imagePullSecrets" .) | set $spec "pods" }}
{{- end }}
{{- range $field, $value := pick $.root.Values "clusterID" "kubeletDir" "pods" }}
{{- if $value }}{{ $_ := deepCopy $value | dict $field | mustMergeOverwrite $spec }}{{ end }}
{{- end }}
{{- $_ := deepCopy ($.values.spec | default dict) | mustMergeOverwrite $spec }}
{{- else if and (eq $object.kind "Role") $.secret }}
{{- range $object.rules }}
{{- if has "openstack-credentials" (.resourceNames | default list) }}{{ $_ := set . "resourceNames" (list $.secret) }}{{ end }}
{{- end }}
{{- else if eq $object.kind "Deployment" }}
{{- include "openstack-csi.deployment" (merge (dict "object" $object) $) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Changes a Deployment (object) by the values of its part (values). */}}
{{- define "openstack-csi.deployment" -}}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- with .secret }}
{{- $_ := set $container "args" (append (without $container.args "--credentials-secret=openstack-credentials") (printf "--credentials-secret=%s" .)) }}
{{- /* The operator logs in before there is a driver. */}}
{{- range list ($.root.Values.pods | default dict) ($.values.spec | default dict | dig "pods" dict) }}
{{- with dig "controller" "hostAliases" "" . }}{{ $_ := set $pod "hostAliases" . }}{{ end }}
{{- end }}
{{- end }}
{{- if hasKey .values "replicas" }}{{ $_ := set .object.spec "replicas" .values.replicas }}{{ end }}
{{- with .values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- if .values.image }}{{ $_ := set $container "image" .values.image }}
{{- else }}
{{- $_ := set $container "image" (include "openstack-csi.image" (dict "root" .root "name" $container.image)) }}
{{- end }}
{{- range $container.env }}
{{- if hasSuffix "_IMAGE" .name }}
{{- $_ := set . "value" (include "openstack-csi.image" (dict "root" $.root "name" .value)) }}
{{- end }}
{{- end }}
{{- with include "openstack-csi.pullSecrets" .root | fromJsonArray }}
{{- $_ := set $pod "imagePullSecrets" . }}
{{- end }}
{{- if .env }}
{{- $env := list }}
{{- range $container.env }}
{{- if not (hasKey $.env .name) }}{{ $env = append $env . }}{{ end }}
{{- end }}
{{- range $name, $value := .env }}
{{- with $value }}{{ $env = append $env (dict "name" $name "value" .) }}{{ end }}
{{- end }}
{{- $_ := set $container "env" $env }}
{{- end }}
{{- end }}
