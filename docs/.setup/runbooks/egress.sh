# An egress operator at work: a project with two servers, their nodes, Cilium's kinds as far as labels go, a StableEgress
# `web` on gateway-a and one that is held.
printf %064d 7 > token
aplomb sim hetzner --listen 127.0.0.1:0 --token-file token > hetzner.out &
until grep -q ^ready hetzner.out; do sleep 0.1; done
CLOUD=$(sed 's/^ready //' hetzner.out)
curl -fsS -X PUT "$CLOUD/_sim/state" --data @deploy/egress/samples/hetzner.json > /dev/null
. "$root/docs/.setup/kinds.sh"
kinds cilium.io v2 Cluster CiliumNode/ciliumnodes CiliumEgressGatewayPolicy/ciliumegressgatewaypolicies
kubectl apply -f deploy/egress/00-crd.yaml -f deploy/egress/01-namespace.yaml
kubectl wait --for=condition=Established crd --all
kubectl create -f deploy/egress/samples/nodes.yaml -f deploy/egress/samples/cilium-policy.yaml
for node in gateway-a gateway-b; do
  echo "{apiVersion: cilium.io/v2, kind: CiliumNode, metadata: {name: $node}}" | kubectl create -f -
done
kubectl -n aplomb-system create secret generic hcloud --from-file=token
aplomb run egress --hetzner-endpoint "$CLOUD/v1" --admin "127.0.0.1:${ADMIN_PORT:-8080}" &
kubectl apply -f deploy/egress/samples/minimal.yaml
sed 's/name: web/name: held/' deploy/egress/samples/hold-and-pin.yaml | kubectl apply -f -
kubectl wait --for=condition=Ready --timeout=1m stableegress/web
