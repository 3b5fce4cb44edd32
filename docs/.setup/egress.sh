# A working installation, where the Prometheus operator is too.
ADMIN_PORT=0
. "$root/docs/.setup/runbooks/egress.sh"
. "$root/docs/.setup/kinds.sh"
prometheus_operator
