{{- define "venturi.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "venturi.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "venturi.labels" -}}
{{ include "venturi.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The fast path's pods have a name of their own: the Service must not lead to them. */}}
{{- define "venturi.fastPathName" -}}
{{ include "venturi.name" . | trunc 54 | trimSuffix "-" }}-fastpath
{{- end }}

{{- define "venturi.fastPathSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}-fastpath
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "venturi.fastPathLabels" -}}
{{ include "venturi.fastPathSelector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
