# A working installation, where the Prometheus operator is too, and a token of the server.
ADMIN_PORT=0
export CODER_SESSION_TOKEN=sim-owner-token
. "$root/docs/.setup/runbooks/coder.sh"
. "$root/docs/.setup/kinds.sh"
prometheus_operator
