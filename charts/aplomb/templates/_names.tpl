{{- /* Names and labels. Names are fixed, not made from the release's: one cluster has one of each operator. */ -}}

{{- define "aplomb.image" -}}
{{- if not .Values.image.repository -}}
{{- fail "image.repository is empty: set it to where you pushed the image of deploy/Dockerfile, such as --set image.repository=registry.example.com/aplomb" -}}
{{- end -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- /* What selects pods: it can never change, so there is no version in it. */ -}}
{{- define "aplomb.selector" -}}
app.kubernetes.io/name: {{ .name }}
{{- end }}

{{- /* What pods carry: no chart's version, or an upgrade of labels alone would restart them. */ -}}
{{- define "aplomb.podLabels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: aplomb
{{- end }}

{{- define "aplomb.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/part-of: aplomb
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* metadata of an object without a namespace: root, name, and object where that is another. */ -}}
{{- define "aplomb.clusterMetadata" -}}
metadata:
  name: {{ .object | default .name }}
  labels:
    {{- include "aplomb.labels" . | nindent 4 }}
{{- end }}

{{- /* The same with one: the release's, or another. */ -}}
{{- define "aplomb.metadata" -}}
metadata:
  name: {{ .object | default .name }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  labels:
    {{- include "aplomb.labels" . | nindent 4 }}
    {{- with .more }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "aplomb.account" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "aplomb.metadata" . }}
{{- end }}

{{- /* Who is given a role of this name: root, name, kind of the role, object where the role's name is another. */ -}}
{{- define "aplomb.bound" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .object | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .name }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- define "aplomb.clusterBinding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
{{ include "aplomb.clusterMetadata" . }}
{{ include "aplomb.bound" (merge (dict "kind" "ClusterRole") .) }}
{{- end }}

{{- define "aplomb.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
{{ include "aplomb.metadata" . }}
{{ include "aplomb.bound" (merge (dict "kind" "Role") .) }}
{{- end }}

{{- /* The components that are on, with what each is called, as a list under `all`. */ -}}
{{- define "aplomb.components" -}}
all:
  {{- range $word := list "coder" "egress" "tunnel" }}
  {{- if (index $.Values.operators $word).enabled }}
  - {name: aplomb-{{ $word }}, word: {{ $word }}, port: 8080}
  {{- end }}
  {{- end }}
  {{- if .Values.gateway.enabled }}
  - {name: aplomb-gateway, word: gateway, port: 9090}
  {{- end }}
{{- end }}
