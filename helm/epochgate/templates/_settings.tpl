{{- /* What the chart has to know of epochgate's settings. files/settings.yaml is generated from its code. */ -}}

{{- define "epochgate.configFile" -}}
{{- $settings := .Values.settings | default dict }}
{{- if eq .Values.mode "sidecar" }}
{{- /* There it is a variable: the pod's own loopback. And a session never seen ended with the pod before. */ -}}
{{- $settings = merge (omit $settings "upstream") (dict "unknown_sessions" "refuse") }}
{{- end }}
{{- toYaml $settings }}
{{- end }}

{{- /* Of the settings that need a new process. The others are taken by the running one when the file changes. */ -}}
{{- define "epochgate.settingsChecksum" -}}
{{- $settings := .Values.settings | default dict | deepCopy }}
{{- range (.Files.Get "files/settings.yaml" | fromYaml).reloaded }}
{{- $_ := unset $settings . }}
{{- end }}
{{- $settings | toJson | sha256sum }}
{{- end }}

{{- /* Name of a limit -> its value in seconds, in bytes or as a count. */ -}}
{{- define "epochgate.limits" -}}
{{- $known := .Files.Get "files/settings.yaml" | fromYaml }}
{{- range $name, $limit := $known.limits }}
{{- $value := dig $name $limit.default ($.Values.settings | default dict) }}
{{- if kindIs "string" $value }}
{{- $text := $value | nospace | lower }}
{{- $unit := regexReplaceAll "^[0-9.]+" $text "" }}
{{- $value = mulf (regexFind "^[0-9.]+" $text | float64) (index $known.units $limit.unit $unit) }}
{{- end }}
{{ $name }}: {{ printf "%f" (float64 $value) }}
{{- end }}
{{- end }}

{{- /* The length of a drain in whole seconds, at least 1. */ -}}
{{- define "epochgate.drainSeconds" -}}
{{- (include "epochgate.limits" . | fromYaml).drain | ceil | max 1 | int }}
{{- end }}

{{- /* Mi of memory that the caps allow above that of the bare process; the formula stands in values.yaml. */ -}}
{{- define "epochgate.cappedMi" -}}
{{- $limits := include "epochgate.limits" . | fromYaml }}
{{- $sessions := mulf $limits.max_sessions .Values.memory.perSessionKi 1024 }}
{{- $streams := mulf .Values.memory.keptStreams .Values.memory.perStreamKi 1024 }}
{{- $journal := mulf $limits.journal_total .Values.memory.journalFactor }}
{{- $busy := mulf (addf $limits.max_body $limits.write_buffer) .Values.memory.busyRequests }}
{{- divf (addf $sessions $streams $journal $busy) 1048576 }}
{{- end }}

{{- /* Requests and limits. Memory that is given is taken as it stands. */ -}}
{{- define "epochgate.resources" -}}
{{- $resources := .Values.resources | default dict | deepCopy }}
{{- range $kind := list "requests" "limits" }}
{{- if not (get $resources $kind) }}
{{- $_ := unset $resources $kind }}
{{- end }}
{{- end }}
{{- $given := merge (dict) (deepCopy (dig "requests" dict $resources)) (deepCopy (dig "limits" dict $resources)) }}
{{- if not (hasKey $given "memory") }}
{{- $capped := include "epochgate.cappedMi" . | float64 }}
{{- $requested := divf (mulf $capped .Values.memory.requestPercent) 100 }}
{{- $request := printf "%dMi" (addf .Values.memory.processMi $requested | ceil | int) }}
{{- $limit := printf "%dMi" (addf .Values.memory.processMi $capped | ceil | int) }}
{{- $memory := dict "requests" (dict "memory" $request) "limits" (dict "memory" $limit) }}
{{- $resources = mergeOverwrite $memory $resources }}
{{- end }}
{{- toYaml $resources }}
{{- end }}
