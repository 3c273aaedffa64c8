{{- /* What cannot be right, each in one sentence that says what would be. */ -}}

{{- define "epochgate.refuse" -}}
{{- $wrong := list }}
{{- range list "epochgate.refuse.mode" "epochgate.refuse.replicas" "epochgate.refuse.ports" "epochgate.refuse.settings" "epochgate.refuse.secrets" "epochgate.refuse.objects" }}
{{- range include . $ | splitList "\n" }}
{{- with trim . }}
{{- $wrong = append $wrong . }}
{{- end }}
{{- end }}
{{- end }}
{{- if $wrong }}
{{- fail (printf "\n%s" (join "\n" $wrong)) }}
{{- end }}
{{- end }}

{{- define "epochgate.refuse.mode" }}
{{- $upstreams := include "epochgate.upstreams" . | splitList "," | compact }}
{{- $image := .Values.server.image }}
{{- if eq .Values.mode "sidecar" }}
{{- if not $image.repository }}
server.image.repository: not given; mode sidecar runs your MCP server in the pod, so name its image
{{- else if not (or $image.tag $image.digest) }}
server.image: neither tag nor digest; give one, so that a rollout of your server is a change of it
{{- end }}
{{- $own := printf "^https?://(127\\.0\\.0\\.1|localhost|\\[::1\\]):%d(/|$)" (int .Values.server.port) }}
{{- range $upstreams }}
{{- if not (regexMatch $own .) }}
settings.upstream: {{ . }} is not the server of this pod; leave it out, give http://127.0.0.1:{{ $.Values.server.port }}/…, or use mode gateway
{{- end }}
{{- end }}
{{- else }}
{{- if $image.repository }}
server.image: mode gateway runs no server; leave it out and give settings.upstream, or use mode sidecar
{{- end }}
{{- if not $upstreams }}
settings.upstream: not given; mode gateway needs the URL of the MCP server, for example http://server-headless:8000
{{- end }}
{{- range $upstreams }}
{{- if not (regexMatch "^(?i)https?://[^/]" .) }}
settings.upstream: {{ . }} is not an http or https URL; give the server's, for example http://server-headless:8000
{{- end }}
{{- if and (regexMatch "^https?://(127\\.[0-9.]+|localhost|\\[::1\\])(:|/|$)" .) (not $.Values.extraContainers) }}
settings.upstream: {{ . }} is the pod of epochgate itself, where nothing else runs in mode gateway; name your server's Service
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epochgate.refuse.replicas" }}
{{- $scaling := .Values.autoscaling }}
{{- $hasOwnState := not (include "epochgate.isShared" .) }}
{{- $isMany := gt (int .Values.replicaCount) 1 }}
{{- if eq .Values.mode "sidecar" }}
{{- if $scaling.enabled }}
autoscaling.enabled: not in mode sidecar, where scaling in ends the sessions of a pod; set replicaCount
{{- end }}
{{- if and $isMany (eq .Values.sessionAffinity "none") }}
replicaCount: {{ .Values.replicaCount }} pods have sessions of their own, and nothing leads a session's requests to the same pod; set sessionAffinity to clientIP or ingress, or replicaCount to 1
{{- end }}
{{- else if $hasOwnState }}
{{- $way := ternary (printf "epochgate %s has no store that pods share, so" .Chart.AppVersion) "use a store that pods share (redis), or" (not (or .Values.image.tag .Values.image.digest)) }}
{{- if $scaling.enabled }}
autoscaling.enabled: with state.store {{ .Values.state.store }} each pod has sessions of its own; {{ $way }} no autoscaler
{{- else if $isMany }}
replicaCount: with state.store {{ .Values.state.store }} each pod has sessions of its own; {{ $way }} replicaCount 1
{{- end }}
{{- end }}
{{- if $scaling.enabled }}
{{- if gt (int $scaling.minReplicas) (int $scaling.maxReplicas) }}
autoscaling.minReplicas: larger than maxReplicas; give at most {{ $scaling.maxReplicas }}
{{- end }}
{{- if not (or $scaling.targetCPUUtilizationPercentage $scaling.targetMemoryUtilizationPercentage $scaling.metrics) }}
autoscaling: nothing to go by; give targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage or metrics
{{- end }}
{{- if and $scaling.targetCPUUtilizationPercentage (not (dig "requests" "cpu" "" (.Values.resources | default dict))) }}
autoscaling.targetCPUUtilizationPercentage: a percentage of nothing; give resources.requests.cpu
{{- end }}
{{- end }}
{{- if and (eq .Values.sessionAffinity "clientIP") (eq .Values.service.clusterIP "None") }}
sessionAffinity: a headless Service (service.clusterIP None) balances nothing, so clientIP has no effect; give ingress or none, or another clusterIP
{{- end }}
{{- with .Values.strategy.rollingUpdate }}
{{- if and (eq $.Values.strategy.type "RollingUpdate") (has (toString .maxSurge) (list "0" "0%")) (has (toString .maxUnavailable) (list "0" "0%")) }}
strategy.rollingUpdate: with maxSurge and maxUnavailable 0 no pod can be replaced; make one of them 1
{{- end }}
{{- end }}
{{- end }}

{{- define "epochgate.refuse.ports" }}
{{- $ports := dict "ports.traffic" .Values.ports.traffic "ports.health" .Values.ports.health "ports.admin" .Values.ports.admin }}
{{- if eq .Values.mode "sidecar" }}
{{- $_ := set $ports "server.port" .Values.server.port }}
{{- end }}
{{- $taken := dict }}
{{- range $name := keys $ports | sortAlpha }}
{{- $port := get $ports $name | int | toString }}
{{- if hasKey $taken $port }}
{{ $name }}: {{ $port }} is {{ get $taken $port }} already; the ports of a pod have to differ
{{- end }}
{{- $_ := set $taken $port $name }}
{{- end }}
{{- range .Values.bindAddresses }}
{{- if or (hasPrefix "127." .) (has . (list "::1" "localhost")) }}
bindAddresses: {{ . }} cannot be reached from outside the pod, so no probe would succeed; give 0.0.0.0 or "::"
{{- end }}
{{- end }}
{{- if and .Values.admin.exposed (not .Values.admin.token.existingSecret) }}
admin.exposed: without a token anybody could drain it; give admin.token.existingSecret, or leave the admin listener on loopback
{{- end }}
{{- end }}

{{- define "epochgate.refuse.settings" }}
{{- $known := .Files.Get "files/settings.yaml" | fromYaml }}
{{- $limits := include "epochgate.limits" . | fromYaml }}
{{- $grace := int .Values.terminationGracePeriodSeconds }}
{{- if gt $limits.drain (float64 (sub $grace 10)) }}
settings.drain: longer than terminationGracePeriodSeconds − 10 ({{ sub $grace 10 }} s), so the pod would be killed while it drains; give a shorter drain, or a longer grace period
{{- end }}
{{- $sleep := include "epochgate.serverSleep" . | int }}
{{- if and (eq .Values.mode "sidecar") (gt $sleep (sub $grace 10 | int)) }}
server.lifecycle.preStop.sleep: {{ $sleep }} s is longer than terminationGracePeriodSeconds − 10 ({{ sub $grace 10 }} s), so the pod would be killed before it has ended; give less, or a longer grace period
{{- end }}
{{- range $name, $limit := $known.limits }}
{{- if lt (index $limits $name) (float64 $limit.least) }}
settings.{{ $name }}: too small; give at least {{ $limit.least }}
{{- end }}
{{- end }}
{{- range $pair := $known.ordered }}
{{- if gt (index $limits (first $pair)) (index $limits (last $pair)) }}
settings.{{ first $pair }}: larger than {{ last $pair }}; give at most that
{{- end }}
{{- end }}
{{- $isOwnImage := not (or .Values.image.tag .Values.image.digest) }}
{{- if and $isOwnImage (not (has .Values.state.store (list "memory"))) }}
state.store: epochgate {{ .Chart.AppVersion }} has no {{ .Values.state.store }}; give memory, or the image.tag of a release that has it
{{- end }}
{{- range .Values.extraEnv }}
{{- if regexMatch (printf "(?m)^- name: %s$" .name) (include "epochgate.env" $) }}
extraEnv: {{ .name }} is set by the chart; use the value that it follows from
{{- else if hasPrefix "EPOCHGATE_" .name }}
{{- $setting := trimPrefix "EPOCHGATE_" .name | lower }}
{{- if or (hasKey ($.Values.settings | default dict) $setting) (and (has $setting $known.names) (hasKey . "value")) }}
extraEnv: {{ .name }} would win over the file and all its changes; give settings.{{ $setting }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epochgate.refuse.secrets" }}
{{- if and (eq .Values.state.store "redis") (not .Values.state.redis.existingSecret) }}
state.redis.existingSecret: not given; name the Secret that has the store's URL
{{- end }}
{{- if and .Values.tls.existingSecret (include "epochgate.hasCertificate" .) }}
tls.existingSecret: settings.tls_certificate names another certificate; give one of them
{{- end }}
{{- if and (or .Values.tls.clientCAKey .Values.tls.passphrase.existingSecret) (not .Values.tls.existingSecret) }}
tls: without effect; give tls.existingSecret as well
{{- end }}
{{- with .Values.upstreamTLS }}
{{- if and (or .serverName .ca.existingSecret .ca.existingConfigMap .certificate.existingSecret) (not (contains "https://" (include "epochgate.upstreams" $))) }}
upstreamTLS: without effect on an http upstream; give an https URL in settings.upstream
{{- end }}
{{- if and .ca.existingSecret .ca.existingConfigMap }}
upstreamTLS.ca: both a Secret and a ConfigMap; give one of them
{{- end }}
{{- if and .passphrase.existingSecret (not .certificate.existingSecret) }}
upstreamTLS.passphrase: without effect; give upstreamTLS.certificate.existingSecret as well
{{- end }}
{{- end }}
{{- end }}

{{- define "epochgate.refuse.objects" }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
serviceMonitor.enabled: podMonitor is enabled too, and every pod would be scraped twice; enable one of them
{{- end }}
{{- if and (eq .Values.service.clusterIP "None") (ne (int .Values.service.port) (int .Values.ports.traffic)) }}
service.port: a headless Service (service.clusterIP None) translates no ports; give {{ .Values.ports.traffic }}, that of ports.traffic
{{- end }}
{{- if and .Values.service.nodePort (eq .Values.service.type "ClusterIP") }}
service.nodePort: without effect for type ClusterIP; give type NodePort or LoadBalancer, or leave it out
{{- end }}
{{- if and (not .Values.serviceAccount.create) .Values.serviceAccount.annotations }}
serviceAccount.annotations: without effect on an account that the chart does not make; set serviceAccount.create
{{- end }}
{{- end }}
