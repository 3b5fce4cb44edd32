//! One conformance suite, two servers: the box and the real kube-apiserver.
//!
//! A case ([`case::Case`]) states a rule of the API server: it sends requests, asserts what the
//! rule says, and leaves a transcript of every masked answer. The runner runs it on both servers
//! and compares the transcripts; where they differ, the real server is right.
//!
//! ```text
//! conformance [--server box|real|both] [--filter TEXT] [--report FILE] [--long] [--list]
//! conformance --self-test    breaks each rule the box can break and asserts that cases notice
//! conformance --count FILE   says from a report how many cases ran where
//! e2e                        runs Kubernetes' own end-to-end suite on both and counts
//! kubectl                    runs stock kubectl against `aplomb box` and the real server
//! ```
//!
//! It ends with how many cases ran on which server and a line `N passed, N failed`. Without Go the
//! real server is left out, loudly; with `CI=true` that is a failure.
#![forbid(unsafe_code)]
#![allow(missing_debug_implementations, reason = "kube::Client has none")]

pub mod answer;
pub mod bench;
pub mod build;
pub mod case;
pub mod case_run;
pub mod cases;
pub mod difference;
pub mod differential;
pub mod e2e;
pub mod faults;
pub mod kubectl;
pub mod mask;
pub mod real;
pub mod report;
pub mod runner;
pub mod self_test;
pub mod server;
pub mod sim;
pub mod tls;
pub mod verbs;
pub mod watch;
