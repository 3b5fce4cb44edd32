//! The whole of Aplomb in one process: the box, the operators, the tunnels' data plane and the systems they call,
//! and the stories that are played on them. Nothing here is used by anything that ships to a cluster.
#![forbid(unsafe_code)]
