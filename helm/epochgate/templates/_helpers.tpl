{{- /* Names, labels and images. */ -}}

{{- define "epochgate.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name, with the chart's unless it is in it already. */ -}}
{{- define "epochgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) }}
{{- default $both .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- /* What selectors go by: it may never change. */ -}}
{{- define "epochgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "epochgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "epochgate.ownLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "epochgate.selectorLabels" . }}
{{ include "epochgate.otherLabels" . }}
{{- end }}

{{- define "epochgate.otherLabels" -}}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/part-of: epochgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* (list map map…): all of them, a later one's entries before an earlier one's. */ -}}
{{- define "epochgate.merged" -}}
{{- $all := dict }}
{{- range . }}
{{- $all = . | default dict | deepCopy | mergeOverwrite $all }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* (list root labels…): those of every object, those of this one, and the chart's own, which win. */ -}}
{{- define "epochgate.labels" -}}
{{- $root := first . }}
{{- $own := include "epochgate.ownLabels" $root | fromYaml }}
{{- include "epochgate.merged" (concat (list $root.Values.commonLabels) (rest .) (list $own)) }}
{{- end }}

{{- /* (list root annotations…): those of every object and those of this one, or nothing. */ -}}
{{- define "epochgate.annotations" -}}
{{- $all := (first .).Values.commonAnnotations | default dict | deepCopy }}
{{- range rest . }}
{{- $all = . | default dict | deepCopy | mergeOverwrite $all }}
{{- end }}
{{- with $all -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "epochgate.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (.Values.serviceAccount.create | ternary (include "epochgate.fullname" .) "default") }}
{{- end }}

{{- /* (list image tag): the reference of an image, `tag` if it names none. */ -}}
{{- define "epochgate.image" -}}
{{- $image := first . }}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end }}
{{- $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default (last .) }}{{ end }}
{{- end }}

{{- /* Whether all of a session has to reach the same pod: every state but one that pods share. */ -}}
{{- define "epochgate.isShared" -}}
{{- if eq .Values.state.store "redis" }}true{{ end }}
{{- end }}

{{- /* The upstream's URLs with commas between them. */ -}}
{{- define "epochgate.upstreams" -}}
{{- $given := dig "upstream" "" (.Values.settings | default dict) }}
{{- kindIs "slice" $given | ternary (join "," $given) $given | nospace }}
{{- end }}

{{- /* What the traffic port speaks. */ -}}
{{- define "epochgate.scheme" -}}
{{- if or .Values.tls.existingSecret (include "epochgate.hasCertificate" .) }}https{{ else }}http{{ end }}
{{- end }}

{{- /* Whether the settings name a certificate of its own. */ -}}
{{- define "epochgate.hasCertificate" -}}
{{- if hasKey (.Values.settings | default dict) "tls_certificate" }}true{{ end }}
{{- end }}

{{- define "epochgate.testLabels" -}}
app.kubernetes.io/name: {{ include "epochgate.name" . | trunc 58 }}-test
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
