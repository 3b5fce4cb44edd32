# `kinds GROUP VERSION SCOPE KIND/PLURAL...` installs kinds that somebody else's software brings, with any content.
kinds() {
  local group=$1 version=$2 scope=$3 it; shift 3
  for it in "$@"; do
    kubectl create -f - <<CRD
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ${it#*/}.$group}
spec:
  group: $group
  scope: $scope
  names: {kind: ${it%/*}, plural: ${it#*/}, singular: $(tr A-Z a-z <<< "${it%/*}")}
  versions:
    - name: $version
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
CRD
  done
}
prometheus_operator() { kinds monitoring.coreos.com v1 Namespaced ServiceMonitor/servicemonitors PrometheusRule/prometheusrules; }
