//! The host with hostile and faulty guests, clients and disks.

// The exemption in clippy.toml covers test functions, and not the functions that they share.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

mod access_log;
mod admin;
mod bodies;
mod by_value;
mod canary;
mod careless_guests;
mod collector;
mod descriptors;
mod exchanges;
mod fairness;
mod faults;
mod fixture;
mod foreign;
mod framing;
mod full_listener;
mod fuzz;
mod gone_clients;
mod health;
mod http2;
mod http2_downloads;
mod http2_fuzz;
mod http2_proxies;
mod http2_rules;
mod http2_unread;
mod http2_uploads;
mod ingress;
mod ingress_fuzz;
mod key_value;
mod loading;
mod maintenance;
mod manifest_fuzz;
mod memory;
mod nested;
mod nested_cache;
mod operator;
mod operator_changes;
mod outbound;
mod outbound_addresses;
mod policy;
mod readiness;
mod response_cache;
mod restart;
mod serving;
mod shards;
mod slow_readers;
mod slow_uploads;
mod small_responses;
mod stopping;
mod swap;
mod swap_load;
mod traces;
mod trust;
mod unfinished_bodies;
mod upstream;
mod versions;
mod visitor;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../tests/harness/wait.rs"]
mod wait;
#[path = "../../tests/harness/wait_async.rs"]
mod wait_async;
