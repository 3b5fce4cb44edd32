{{- /* Parts of the pods of every component. */ -}}

{{- define "aplomb.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- define "aplomb.podSecurity" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- define "aplomb.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /* Evicted from a dead node after half a minute instead of five. */ -}}
{{- define "aplomb.tolerations" -}}
# Evicted from a dead node after half a minute instead of five.
tolerations:
  - key: node.kubernetes.io/not-ready
    operator: Exists
    effect: NoExecute
    tolerationSeconds: 30
  - key: node.kubernetes.io/unreachable
    operator: Exists
    effect: NoExecute
    tolerationSeconds: 30
{{- end }}

{{- /* Prefer another node than the other replicas of the same revision. */ -}}
{{- define "aplomb.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "aplomb.selector" . | nindent 12 }}
        # Otherwise replicas of the old revision would count during a rolling update.
        matchLabelKeys: [pod-template-hash]
{{- end }}

{{- define "aplomb.selves" -}}
- name: APLOMB_IDENTITY
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: APLOMB_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}

{{- /* One operator: root, name, word, values, and optionally env, affinity. */ -}}
{{- define "aplomb.operator" -}}
apiVersion: apps/v1
kind: Deployment
{{ include "aplomb.metadata" . }}
spec:
  replicas: {{ .values.replicas }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "aplomb.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "aplomb.podLabels" . | nindent 8 }}
    spec:
      serviceAccountName: {{ .name }}
      {{- with include "aplomb.pullSecrets" .root }}
      {{- . | nindent 6 }}
      {{- end }}
      {{- with .values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      # Longer than the operator needs to finish its work and release its lease.
      terminationGracePeriodSeconds: 30
      affinity:
        {{- .affinity | default (include "aplomb.apart" .) | nindent 8 }}
      {{- include "aplomb.tolerations" . | nindent 6 }}
      {{- include "aplomb.podSecurity" . | nindent 6 }}
      containers:
        - name: operator
          # Built from deploy/Dockerfile, with the name it was pushed as.
          image: {{ include "aplomb.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args: [run, {{ .word }}]
          env:
            {{- include "aplomb.selves" . | nindent 12 }}
            {{- with .env }}
            {{- . | nindent 12 }}
            {{- end }}
            - name: APLOMB_ADMIN
              value: 0.0.0.0:8080
            - name: APLOMB_LOG_FORMAT
              value: json
            {{- with .values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: admin
              containerPort: 8080
          livenessProbe:
            httpGet:
              path: /livez
              port: admin
            initialDelaySeconds: 15
            periodSeconds: 20
          # A standby is ready too: its caches are synced, so it can take over.
          readinessProbe:
            httpGet:
              path: /readyz
              port: admin
            periodSeconds: 5
          # Syncing the caches of a large cluster takes up to 120 s.
          startupProbe:
            httpGet:
              path: /readyz
              port: admin
            periodSeconds: 1
            failureThreshold: 120
          resources:
            {{- toYaml .values.resources | nindent 12 }}
          {{- include "aplomb.containerSecurity" . | nindent 10 }}
{{- end }}
