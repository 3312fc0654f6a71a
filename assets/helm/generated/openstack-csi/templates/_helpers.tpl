{{/* The names of the drivers that are enabled, separated by "-". */}}
{{- define "openstack-csi.drivers" -}}
{{- $enabled := list }}
{{- range list "cinder" "manila" }}
{{- if (get $.Values .).enabled }}{{ $enabled = append $enabled . }}{{ end }}
{{- end }}
{{- join "-" $enabled }}
{{- end }}

{{/* The text of a manifest in the namespace of the release. */}}
{{- define "openstack-csi.text" -}}
{{- $text := regexReplaceAll "(?m)namespace: openstack-csi$" .text (printf "namespace: %s" .namespace) }}
{{- $text = replace ".openstack-csi.svc" (printf ".%s.svc" .namespace) $text }}
{{- replace ".openstack.org=openstack-csi" (printf ".openstack.org=%s" .namespace) $text }}
{{- end }}

{{/* The image of a manifest (name) by the values: those of this project have no registry there. */}}
{{- define "openstack-csi.image" -}}
{{- $values := .root.Values.images }}
{{- if contains "/" .name }}{{ .name }}
{{- else }}
{{- with $values.registry }}{{ . }}/{{ end }}{{ .name }}
{{- with get ($values.digests | default dict) .name }}@{{ . }}
{{- else }}{{ with $values.tag }}:{{ . }}{{ end }}
{{- end }}
{{- end }}
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
{{- if has $object.kind (list "CustomResourceDefinition" "Namespace") }}
{{- $_ := set . "annotations" (set (.annotations | default dict) "helm.sh/resource-policy" "keep") }}
{{- else if hasPrefix "csi.openstack.org/" $object.apiVersion }}
{{- /* What is not a value belongs to whoever sets it. */}}
{{- $spec := deepCopy ($.values.spec | default dict) }}
{{- range $field, $value := pick $.root.Values "clusterID" "kubeletDir" "pods" }}
{{- if and $value (not (hasKey $spec $field)) }}{{ $_ := set $spec $field $value }}{{ end }}
{{- end }}
{{- $_ := set $object "spec" (merge $spec $object.spec) }}
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
{{- end }}
{{- if hasKey .values "replicas" }}{{ $_ := set .object.spec "replicas" .values.replicas }}{{ end }}
{{- with .values.resources }}{{ $_ := set $container "resources" . }}{{ end }}
{{- $image := include "openstack-csi.image" (dict "root" .root "name" $container.image) }}
{{- $_ := set $container "image" (.values.image | default $image) }}
{{- with .root.Values.images.pullSecrets }}
{{- $secrets := list }}
{{- range . }}{{ $secrets = append $secrets (dict "name" .) }}{{ end }}
{{- $_ := set $pod "imagePullSecrets" $secrets }}
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
