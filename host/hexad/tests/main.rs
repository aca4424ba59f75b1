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
mod spin_headers;
mod stopping;
mod swap;
mod swap_load;
mod traces;
mod trust;
mod unfinished_bodies;
mod upstream;
mod versions;
mod visitor;

use crate::fixture::{Server, agent, get, guest, manifest, options, store, text};
use crate::http2::{
    END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, connect, frame, head,
    hello, next_frame,
};
use crate::ingress::{certificate, connect_tls, with_tls};
use crate::slow_readers::{
    NO_MINIMUM, assert_body, assert_hello, listen, listen_on, read_text, rest, status_line, wait_for_busy,
};
use crate::upstream::Upstream;
use crate::versions::{audit, digest, incoming, swap, swap_request, trial, try_out, variant};
use bytes::Bytes;
use futures::future::join_all;
use h2::client::SendRequest;
use hexad::admin::AdminAccess;
use hexad::component::{CanaryPolicy, ComponentService};
use hexad::deploy::{DeployError, SwapRequest};
use hexad::imports::outbound::OutboundOptions;
use hexad::ingress::{Ingress, IngressOptions};
use hexad::send_buffer::{DrainPolicy, SendLimits};
use hexad::store::sqlite;
use hexad::{Digest, Host, HostOptions, ResponseBody, StartError};
use hexad_testing::wait::{self, SOON, join, wait_until};
use hexad_testing::wait_async::wait_until_async;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;
