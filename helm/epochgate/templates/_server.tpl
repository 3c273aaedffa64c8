{{- /* The container of the MCP server in mode sidecar. */ -}}

{{- define "epochgate.server" -}}
{{- $lifecycle := .Values.server.lifecycle | default dict | deepCopy }}
{{- if not $lifecycle.preStop }}
{{- /* It has to be there until what it owes has been answered. */ -}}
{{- $_ := set $lifecycle "preStop" (dict "sleep" (dict "seconds" (include "epochgate.drainSeconds" . | int))) }}
{{- end -}}
- name: server
  image: {{ include "epochgate.image" (list .Values.server.image "") | quote }}
  imagePullPolicy: {{ .Values.server.image.pullPolicy }}
  {{- with .Values.server.command }}
  command:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.server.args }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.server.env }}
  env:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.server.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: server
      containerPort: {{ .Values.server.port }}
  {{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" }}
  {{- with index $.Values.server $probe }}
  {{ $probe }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  lifecycle:
    {{- toYaml $lifecycle | nindent 4 }}
  {{- with .Values.server.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    {{- toYaml .Values.server.securityContext | nindent 4 }}
  {{- with .Values.server.volumeMounts }}
  volumeMounts:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* Seconds that its own preStop sleeps, or 0. */ -}}
{{- define "epochgate.serverSleep" -}}
{{- $stop := (.Values.server.lifecycle | default dict).preStop | default dict }}
{{- ($stop.sleep | default dict).seconds | default 0 }}
{{- end }}

{{- /* Constraints that were given, or over nodes and zones as far as possible, each ReplicaSet for itself. */ -}}
{{- define "epochgate.spread" -}}
{{- if .Values.topologySpreadConstraints }}
{{- toYaml .Values.topologySpreadConstraints }}
{{- else }}
{{- range $i, $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
{{- if $i }}{{ "\n" }}{{ end -}}
- maxSkew: 1
  topologyKey: {{ $key }}
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels:
      {{- include "epochgate.selectorLabels" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- end }}
