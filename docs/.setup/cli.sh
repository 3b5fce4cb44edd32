# A tunnel at work, and the other kinds installed.
. "$root/docs/.setup/runbooks/tunnel.sh"
aplomb crds --apply
