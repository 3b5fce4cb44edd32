//! A whole agent against an API server in a box, over real iroh on loopback. The operator's part is
//! played by the test.

mod lab;
mod lives;
mod relays;
mod rivals;
