# A working installation, where the Prometheus operator is too.
. "$root/docs/.setup/runbooks/tunnel.sh"
. "$root/docs/.setup/kinds.sh"
prometheus_operator
