{{- /* What both monitors say of how to scrape. */ -}}

{{- define "epochgate.endpoint" -}}
- port: health
  path: /metrics
  {{- with .interval }}
  interval: {{ . }}
  {{- end }}
  {{- with .scrapeTimeout }}
  scrapeTimeout: {{ . }}
  {{- end }}
  {{- with .relabelings }}
  relabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .metricRelabelings }}
  metricRelabelings:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "epochgate.metricsLabels" -}}
{{ include "epochgate.selectorLabels" . }}
app.kubernetes.io/component: metrics
{{- end }}
