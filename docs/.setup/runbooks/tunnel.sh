# Tunnels at work: the operator, a gateway, a service on port 3000, its agent, and an HTTPProxy `web`.
kubectl apply -f deploy/tunnel/00-crds.yaml -f deploy/tunnel/01-namespace.yaml
aplomb run tunnel --domain tunnels.example.com --admin "127.0.0.1:${ADMIN_PORT:-8080}" &
aplomb gateway --listen 127.0.0.1:8081 --admin 127.0.0.1:9090 &
python3 -m http.server --bind 127.0.0.1 3000 &
aplomb connect 3000 --name laptop --connector-only &
kubectl apply -f deploy/tunnel/samples/minimal.yaml
kubectl wait --for=condition=Ready --timeout=1m httpproxy/web
