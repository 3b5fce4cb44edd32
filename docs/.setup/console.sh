# The definitions are there; no operator runs yet.
aplomb crds tunnel --apply
