# Objects of coder.com as their operator leaves them, a server that knows their key and their proxy, and our operator.
kubectl create namespace coder
kubectl apply -f deploy/coder/00-crds.yaml -f deploy/coder/01-namespace.yaml
. "$root/docs/.setup/kinds.sh"
kinds coder.com v1alpha1 Namespaced \
  CoderControlPlane/codercontrolplanes CoderProvisioner/coderprovisioners CoderWorkspaceProxy/coderworkspaceproxies
kubectl wait --for=condition=Established crd --all

aplomb sim coderd --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" > coderd.out &
until grep -q ^ready coderd.out; do sleep 0.1; done
server=$(sed 's/^ready //' coderd.out)
api() { curl -fsS -H 'Coder-Session-Token: sim-owner-token' "$server/api/v2/$1" -d "$2"; }
key=$(api organizations/default/provisionerkeys '{"name": "team", "tags": {"environment": "on-prem"}}' | jq -r .key)
token=$(api workspaceproxies '{"name": "eu-west", "display_name": "Europe West"}' | jq -r .proxy_token)

kubectl -n coder create secret generic coder-token --from-literal=token=sim-owner-token
kubectl -n coder create secret generic eu-west-proxy-token --from-literal=token="$token"
kubectl -n coder create -f - <<EOF
apiVersion: coder.com/v1alpha1
kind: CoderControlPlane
metadata: {name: coder}
spec: {image: "registry.example.com/coder/coder:v2.36.1"}
status: {url: "$server", operatorAccessReady: true, operatorTokenSecretRef: {name: coder-token, key: token}}
---
apiVersion: coder.com/v1alpha1
kind: CoderProvisioner
metadata: {name: team, finalizers: [coder.com/provisioner-key-cleanup]}
spec: {controlPlaneRef: {name: coder}, organizationName: "", tags: {environment: on-prem}}
status: {provisionerKeyName: team, secretRef: {name: team-provisioner-key, key: key}}
---
apiVersion: coder.com/v1alpha1
kind: CoderWorkspaceProxy
metadata: {name: eu-west}
status: {proxyTokenSecretRef: {name: eu-west-proxy-token, key: token}}
EOF
uid=$(kubectl -n coder get coderprovisioners.coder.com team -o jsonpath='{.metadata.uid}')
kubectl -n coder create -f - <<EOF
apiVersion: v1
kind: Secret
metadata:
  name: team-provisioner-key
  ownerReferences:
    - {apiVersion: coder.com/v1alpha1, kind: CoderProvisioner, name: team, uid: $uid, controller: true}
stringData: {key: "$key"}
EOF
kubectl -n coder create serviceaccount team-provisioner
kubectl -n coder create role provisioner-team --verb=get --resource=pods
kubectl -n coder create rolebinding provisioner-team --role=provisioner-team --serviceaccount=coder:team-provisioner
kubectl create deployment provisioner-team --image=registry.example.com/coder/coder:v2.36.1 --dry-run=client -o yaml | kubectl -n coder create -f -
aplomb run coder &
