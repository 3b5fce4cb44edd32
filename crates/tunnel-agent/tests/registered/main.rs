//! A whole agent against an API server in a box, over real iroh on loopback. The operator's part is
//! played by the test.

mod lab;
mod lifecycle;
mod relays;
mod other_agents;
