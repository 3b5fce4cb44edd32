# A Coder operator at work: a coderd that plays the pods, a provisioner `on-prem` and a proxy `eu-west`.
kubectl apply -f deploy/coder/00-crds.yaml -f deploy/coder/01-namespace.yaml
kubectl wait --for=condition=Established crd --all
aplomb sim coderd --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" > coderd.out &
until grep -q ^ready coderd.out; do sleep 0.1; done
aplomb run coder --admin "127.0.0.1:${ADMIN_PORT:-8080}" &
kubectl create secret generic coder-token --from-literal=token=sim-owner-token
SERVER=$(sed 's/^ready //' coderd.out)
kubectl annotate secret coder-token coder.aplomb.dev/servers="$SERVER"
cat deploy/coder/samples/provisioner.yaml <(echo ---) deploy/coder/samples/workspace-proxy.yaml |
  sed "s|https://coder.example.com|$SERVER|" | kubectl apply -f -
kubectl wait --for=condition=Ready --timeout=1m cprov/on-prem cwp/eu-west
