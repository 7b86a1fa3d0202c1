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

{{/* Whoever may create pods where privileged ones are allowed, or run commands in these, is root on every node. */}}
{{- define "venturi.checkApart" -}}
{{- if and .Values.watch.enabled .Values.fastPath.enabled }}
{{- fail "watch.enabled and fastPath.enabled are both true (watch.enabled is by default). The token that measures may create pods and run commands in all pods of its namespace, so also in the fast path's privileged ones. For the fast path, add --set watch.enabled=false; to measure as well, install the chart once more, in another namespace, without fastPath.enabled" }}
{{- end }}
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
