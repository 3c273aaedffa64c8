{{- /* The container of epochgate: the same in both modes, but for what a native sidecar needs. */ -}}

{{- define "epochgate.container" -}}
- name: epochgate
  image: {{ include "epochgate.image" (list .Values.image .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  {{- if eq .Values.mode "sidecar" }}
  restartPolicy: Always
  {{- end }}
  args: [run]
  env:
    {{- include "epochgate.env" . | nindent 4 }}
    {{- with .Values.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - name: mcp
      containerPort: {{ .Values.ports.traffic }}
    - name: health
      containerPort: {{ .Values.ports.health }}
    {{- if .Values.admin.exposed }}
    - name: admin
      containerPort: {{ .Values.ports.admin }}
    {{- end }}
  startupProbe:
    {{- include "epochgate.probe" (list . "startup" "/startupz") | nindent 4 }}
  livenessProbe:
    {{- include "epochgate.probe" (list . "liveness" "/livez") | nindent 4 }}
  readinessProbe:
    {{- include "epochgate.probe" (list . "readiness" "/readyz") | nindent 4 }}
  {{- if eq .Values.mode "sidecar" }}
  # SIGTERM comes only when the server has gone: too late for answers that are owed.
  lifecycle:
    preStop:
      exec:
        command: [epochgate, drain]
  {{- end }}
  resources:
    {{- include "epochgate.resources" . | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "epochgate.volumeMounts" . | nindent 4 }}
    {{- with .Values.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* (list root name path) */ -}}
{{- define "epochgate.probe" -}}
{{- $root := index . 0 -}}
httpGet:
  path: {{ index . 2 }}
  port: {{ $root.Values.ports.health }}
{{- with index $root.Values.probes (index . 1) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* (list root port): where a listener binds. */ -}}
{{- define "epochgate.listen" -}}
{{- $places := list }}
{{- $port := int (last .) }}
{{- range (first .).Values.bindAddresses }}
{{- $places = append $places (printf (contains ":" . | ternary "[%s]:%d" "%s:%d") . $port) }}
{{- end }}
{{- join "," $places }}
{{- end }}

{{- define "epochgate.env" -}}
- name: EPOCHGATE_CONFIG
  value: /etc/epochgate/config.yaml
- name: EPOCHGATE_LISTEN
  value: {{ include "epochgate.listen" (list . .Values.ports.traffic) | quote }}
- name: EPOCHGATE_HEALTH
  value: {{ include "epochgate.listen" (list . .Values.ports.health) | quote }}
- name: EPOCHGATE_ADMIN
  value: {{ .Values.admin.exposed | ternary (include "epochgate.listen" (list . .Values.ports.admin)) (printf "127.0.0.1:%d" (int .Values.ports.admin)) | quote }}
{{- with .Values.admin.token }}
{{- if .existingSecret }}
- name: EPOCHGATE_ADMIN_TOKEN_FILE
  value: /etc/epochgate-secrets/admin/{{ .key }}
{{- end }}
{{- end }}
{{- if eq .Values.mode "sidecar" }}
- name: EPOCHGATE_UPSTREAM
  value: {{ include "epochgate.upstreams" . | default (printf "http://127.0.0.1:%d" (int .Values.server.port)) | quote }}
{{- end }}
{{- if eq .Values.state.store "sqlite" }}
- name: EPOCHGATE_STATE
  value: sqlite:{{ .Values.state.sqlite.directory }}/state.db
{{- else if eq .Values.state.store "redis" }}
- name: EPOCHGATE_STATE
  valueFrom:
    secretKeyRef:
      name: {{ .Values.state.redis.existingSecret }}
      key: {{ .Values.state.redis.key }}
{{- end }}
{{- with .Values.tls }}
{{- if .existingSecret }}
- name: EPOCHGATE_TLS_CERTIFICATE
  value: /etc/epochgate-secrets/tls/{{ .certificateKey }}
- name: EPOCHGATE_TLS_KEY
  value: /etc/epochgate-secrets/tls/{{ .privateKeyKey }}
{{- end }}
{{- with .clientCAKey }}
- name: EPOCHGATE_TLS_CLIENT_CA
  value: /etc/epochgate-secrets/tls/{{ . }}
{{- end }}
{{- if .passphrase.existingSecret }}
- name: EPOCHGATE_TLS_KEY_PASSPHRASE_FILE
  value: /etc/epochgate-secrets/tls-passphrase/{{ .passphrase.key }}
{{- end }}
{{- end }}
{{- with .Values.upstreamTLS }}
{{- with .serverName }}
- name: EPOCHGATE_UPSTREAM_SERVER_NAME
  value: {{ . | quote }}
{{- end }}
{{- if or .ca.existingSecret .ca.existingConfigMap }}
- name: EPOCHGATE_UPSTREAM_CA
  value: /etc/epochgate-secrets/upstream-ca/{{ .ca.key }}
{{- end }}
{{- if .certificate.existingSecret }}
- name: EPOCHGATE_UPSTREAM_CERTIFICATE
  value: /etc/epochgate-secrets/upstream-certificate/{{ .certificate.certificateKey }}
- name: EPOCHGATE_UPSTREAM_KEY
  value: /etc/epochgate-secrets/upstream-certificate/{{ .certificate.privateKeyKey }}
{{- end }}
{{- if .passphrase.existingSecret }}
- name: EPOCHGATE_UPSTREAM_KEY_PASSPHRASE_FILE
  value: /etc/epochgate-secrets/upstream-passphrase/{{ .passphrase.key }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Directory -> name of the Secret that is mounted there, whole: what is replaced in it is seen. */ -}}
{{- define "epochgate.secretVolumes" -}}
admin: {{ .Values.admin.token.existingSecret | quote }}
tls: {{ .Values.tls.existingSecret | quote }}
tls-passphrase: {{ .Values.tls.passphrase.existingSecret | quote }}
upstream-ca: {{ .Values.upstreamTLS.ca.existingSecret | quote }}
upstream-certificate: {{ .Values.upstreamTLS.certificate.existingSecret | quote }}
upstream-passphrase: {{ .Values.upstreamTLS.passphrase.existingSecret | quote }}
{{- end }}

{{- define "epochgate.volumes" -}}
- name: epochgate-config
  configMap:
    name: {{ include "epochgate.fullname" . }}
{{- if eq .Values.state.store "sqlite" }}
- name: epochgate-state
  emptyDir:
    sizeLimit: {{ .Values.state.sqlite.sizeLimit }}
{{- end }}
{{- with .Values.upstreamTLS.ca.existingConfigMap }}
- name: epochgate-upstream-ca
  configMap:
    name: {{ . }}
{{- end }}
{{- range $name, $secret := include "epochgate.secretVolumes" . | fromYaml }}
{{- if $secret }}
- name: epochgate-{{ $name }}
  secret:
    secretName: {{ $secret }}
{{- end }}
{{- end }}
{{- end }}

{{- define "epochgate.volumeMounts" -}}
- name: epochgate-config
  mountPath: /etc/epochgate
  readOnly: true
{{- if eq .Values.state.store "sqlite" }}
- name: epochgate-state
  mountPath: {{ .Values.state.sqlite.directory }}
{{- end }}
{{- if .Values.upstreamTLS.ca.existingConfigMap }}
- name: epochgate-upstream-ca
  mountPath: /etc/epochgate-secrets/upstream-ca
  readOnly: true
{{- end }}
{{- range $name, $secret := include "epochgate.secretVolumes" . | fromYaml }}
{{- if $secret }}
- name: epochgate-{{ $name }}
  mountPath: /etc/epochgate-secrets/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end }}
