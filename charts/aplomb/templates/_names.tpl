{{- /* Names and labels. Names do not depend on the release, because a cluster has one of each operator. */ -}}

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

{{- /* Selector labels. They can never change, so they contain no version. */ -}}
{{- define "aplomb.selector" -}}
app.kubernetes.io/name: {{ .name }}
{{- end }}

{{- /* Pod labels, without the chart version: otherwise an upgrade that changes only labels would restart pods. */ -}}
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

{{- /* metadata of a cluster-scoped object: root, name, and object if its name differs. */ -}}
{{- define "aplomb.clusterMetadata" -}}
metadata:
  name: {{ .object | default .name }}
  labels:
    {{- include "aplomb.labels" . | nindent 4 }}
{{- end }}

{{- /* The same with a namespace: the release's, or another. */ -}}
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

{{- /* The roleRef and subjects of a binding: root, name, kind of the role, object if the role's name differs. */ -}}
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

{{- /* The enabled components with their names, as a list under `all`. */ -}}
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
