//! A whole agent against an API server in a box, over real iroh on loopback. The test does what the operator
//! would.

mod lab;
mod lifecycle;
mod other_agents;
mod relays;
