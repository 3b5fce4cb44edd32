//! The promises of the runtime, one test for each: on the box in virtual time, and with the prefix
//! `real_` on a real kube-apiserver (ignored by default; `make test` runs those).
#![allow(clippy::unwrap_used, reason = "a test may fail at any step")]
#![allow(unreachable_pub, reason = "one binary of several files")]

#[path = "../../examples/page.rs"]
#[allow(dead_code, reason = "its main is not called here")]
mod page;

mod admin;
mod adoption;
mod adversary;
mod bench;
mod budgets;
mod children;
mod claims;
mod cold_start;
mod conflicts;
mod deadlines;
mod deletions;
mod elections;
mod events;
mod example;
mod external;
mod faults;
mod gated;
mod lab;
mod lanes;
mod leaders;
mod noise;
mod overload;
mod peers;
mod polite;
mod refusals;
mod relabel;
mod replica;
mod shared;
mod statuses;
mod watches;
mod writes;
