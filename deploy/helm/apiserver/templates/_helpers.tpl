{{- define "apiserver.name" -}}
{{ .Values.fullnameOverride | default .Release.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}

{{- define "apiserver.job" -}}
{{ .Values.serviceMonitor.job | default (printf "%s/%s" .Release.Namespace (include "apiserver.name" .)) }}
{{- end -}}

{{- define "apiserver.selector" -}}
app.kubernetes.io/name: apiserver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "apiserver.labels" -}}
{{ include "apiserver.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "apiserver.metadata" -}}
name: {{ include "apiserver.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "apiserver.labels" . | nindent 2 }}
{{- end -}}

{{- define "apiserver.spread" -}}
- maxSkew: 1
  topologyKey: {{ .topologyKey }}
  whenUnsatisfiable: {{ .root.Values.topologySpread.whenUnsatisfiable }}
  labelSelector:
    matchLabels:
      {{- include "apiserver.selector" .root | nindent 6 }}
  matchLabelKeys: [pod-template-hash]
{{- end -}}
