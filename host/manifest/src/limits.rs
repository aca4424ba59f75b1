//! The limits of one component, from its `tool.hexad` table.

use std::time::Duration;

use bytesize::ByteSize;
use hexad_imports::outbound::OutboundLimits;
use http::Method;
use jiff::SignedDuration;

use super::schema::{HexadTool, OutboundTool, RouteTool};
use crate::router::Router;

/// The most memory that a manifest may grant to one instance. A bulk memory instruction checks for
/// interruption only when it starts, so this bounds how long one runs.
pub const MEMORY_CEILING: u64 = 1024 * 1024 * 1024;

/// The most instances that a manifest may grant to one component.
pub const INSTANCES_CEILING: usize = 1000;

/// The most requests that a manifest may give to one instance.
const REUSE_CEILING: usize = 1_000_000;

/// The most lines per second that a manifest may let a component print.
const LOG_LINES_CEILING: usize = 100_000;

/// The most concurrent outbound requests that a manifest may grant to one component.
const OUTBOUND_CEILING: usize = 512;

/// The longest time that a manifest may set: the clock cannot represent every deadline.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The bounds of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory per instance, summed over all of its memories.
    pub memory: usize,
    /// Concurrent requests. Each has an instance of its own.
    pub instances: usize,
    /// Concurrent requests of one client. Clients differ by address and by credential.
    pub instances_per_client: usize,
    /// Time that a request waits when all instances are busy.
    pub queue_timeout: Duration,
    /// Requests that an instance serves, one after the other, before it is dropped. `None`: the
    /// default for the component's version of `wasi:http`.
    pub max_requests_per_instance: Option<usize>,
    /// Time after which an instance without a request is dropped.
    pub idle_timeout: Duration,
    /// Lines per second that the component may print.
    pub log_lines: u32,
    pub outbound: OutboundLimits,
    /// The limits of each request whose route has none of its own.
    pub request: RequestLimits,
}

/// The bounds of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Time from the last received byte of the request to the head of the response, and then for each part of the
    /// response's body that the client waits for.
    pub request_timeout: Duration,
    /// Time for the transfer of the whole request, and again for the whole response body.
    pub transfer_timeout: Duration,
    /// Processor time, including that of the response body. Waiting does not count.
    pub cpu_time: Duration,
    /// Bytes of a request body.
    pub max_body: u64,
    /// Bytes of a response body.
    pub max_response: u64,
}

/// The limits of the routes that have their own.
pub type RouteLimits = Router<RequestLimits>;

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            transfer_timeout: Duration::from_secs(600),
            cpu_time: Duration::from_secs(30),
            max_body: 64 * 1024 * 1024,
            max_response: 1024 * 1024 * 1024,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 256 * 1024 * 1024,
            instances: 64,
            instances_per_client: share(64),
            queue_timeout: Duration::from_secs(5),
            max_requests_per_instance: None,
            idle_timeout: Duration::from_secs(10),
            log_lines: 100,
            outbound: OutboundLimits::default(),
            request: RequestLimits::default(),
        }
    }
}

impl Limits {
    /// Reports each unusable value to `problem`.
    pub(super) fn from_tool(tool: &HexadTool, problem: &mut dyn FnMut(String)) -> Self {
        let default = Self::default();
        let instances = tool.instances.map(|value| count("instances", value, INSTANCES_CEILING));
        let instances = or_default(instances, default.instances, problem);
        let per_client = tool.instances_per_client.map(|value| count("instances_per_client", value, instances));
        let log_lines = tool.log_lines.map(|value| {
            let lines = count("log_lines", value, LOG_LINES_CEILING)?;
            Ok(u32::try_from(lines).unwrap_or(u32::MAX))
        });
        let max_requests = tool
            .max_requests_per_instance
            .map(|value| count("max_requests_per_instance", value, REUSE_CEILING).map(Some));
        let queue_timeout = time("queue_timeout", &tool.queue_timeout);
        let idle_timeout = time("idle_timeout", &tool.idle_timeout);
        Self {
            memory: or_default(tool.memory.as_deref().map(memory), default.memory, problem),
            instances,
            instances_per_client: or_default(per_client, share(instances), problem),
            queue_timeout: or_default(queue_timeout, default.queue_timeout, problem),
            idle_timeout: or_default(idle_timeout, default.idle_timeout, problem),
            max_requests_per_instance: or_default(max_requests, None, problem),
            log_lines: or_default(log_lines, default.log_lines, problem),
            outbound: outbound(&tool.outbound, &mut |reason| problem(format!("outbound.{reason}"))),
            request: default.request.overridden_by(&tool.request_limits(), problem),
        }
    }
}

impl RequestLimits {
    /// The limits of `tool`; where it sets none, the limits of `self`.
    fn overridden_by(&self, tool: &RouteTool, problem: &mut dyn FnMut(String)) -> Self {
        let mut times = |key: &str, text: &Option<String>, own: Duration| or_default(time(key, text), own, problem);
        let request_timeout = times("request_timeout", &tool.request_timeout, self.request_timeout);
        let transfer_timeout = times("transfer_timeout", &tool.transfer_timeout, self.transfer_timeout);
        let cpu_time = times("cpu_time", &tool.cpu_time, self.cpu_time);
        let mut sizes = |key: &str, text: &Option<String>, own: u64| or_default(size(key, text), own, problem);
        let max_body = sizes("max_body", &tool.max_body, self.max_body);
        let max_response = sizes("max_response", &tool.max_response, self.max_response);
        Self { request_timeout, transfer_timeout, cpu_time, max_body, max_response }
    }

    /// The limits of the routes in the table `routes`; where a route sets none, the limits of `self`. `None` if the
    /// table is unusable.
    pub(super) fn of_routes(&self, tool: &HexadTool, problem: &mut dyn FnMut(String)) -> Option<RouteLimits> {
        let limits = tool.routes.iter().map(|(pattern, route)| {
            let mut of_route = |reason| problem(format!("routes.\"{pattern}\".{reason}"));
            (pattern.clone(), self.overridden_by(route, &mut of_route))
        });
        let limits: Vec<_> = limits.collect();
        Router::new(limits).map_err(|error| problem(format!("routes: {error}"))).ok()
    }
}

fn outbound(tool: &OutboundTool, problem: &mut dyn FnMut(String)) -> OutboundLimits {
    let default = OutboundLimits::default();
    let network = |text: &String| {
        let reason = |_| format!("networks has \"{text}\", which is no network; write one such as \"10.0.0.0/8\"");
        text.parse().map_err(reason)
    };
    let networks: Result<_, _> = tool.networks.iter().map(network).collect();
    let requests = tool.requests.map(|value| count("requests", value, OUTBOUND_CEILING));
    let requests = or_default(requests, default.requests, problem);
    let per_client = tool.requests_per_client.map(|value| count("requests_per_client", value, requests));
    let mut times = |key: &str, text: &Option<String>, own: Duration| or_default(time(key, text), own, problem);
    OutboundLimits {
        requests,
        queue_timeout: times("queue_timeout", &tool.queue_timeout, default.queue_timeout),
        connect_timeout: times("connect_timeout", &tool.connect_timeout, default.connect_timeout),
        head_timeout: times("head_timeout", &tool.head_timeout, default.head_timeout),
        idle_timeout: times("idle_timeout", &tool.idle_timeout, default.idle_timeout),
        timeout: times("timeout", &tool.timeout, default.timeout),
        requests_per_client: or_default(per_client, share(requests), problem),
        max_response: or_default(size("max_response", &tool.max_response), default.max_response, problem),
        coalesce: or_default(Some(coalesce(tool)), default.coalesce, problem),
        networks: or_default(Some(networks), default.networks, problem),
    }
}

/// The methods whose equal requests in progress the host coalesces.
fn coalesce(tool: &OutboundTool) -> Result<Vec<Method>, String> {
    const UNSAFE: [Method; 4] = [Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
    let method = |name: &String| {
        let known = UNSAFE.into_iter().find(|method| method.as_str() == name);
        known.ok_or_else(|| format!("coalesce_methods has \"{name}\"; write POST, PUT, PATCH or DELETE"))
    };
    let safe = tool.coalesce.then_some([Method::GET, Method::HEAD]).into_iter().flatten();
    safe.map(Ok).chain(tool.coalesce_methods.iter().map(method)).collect()
}

/// The manifest's value, or else the default. Reports an invalid value to `problem`.
fn or_default<T>(said: Option<Result<T, String>>, default: T, problem: &mut dyn FnMut(String)) -> T {
    said.transpose()
        .unwrap_or_else(|reason| {
            problem(reason);
            None
        })
        .unwrap_or(default)
}

fn time(key: &str, text: &Option<String>) -> Option<Result<Duration, String>> {
    text.as_deref().map(|text| duration(key, text))
}

fn size(key: &str, text: &Option<String>) -> Option<Result<u64, String>> {
    text.as_deref().map(|text| bytes(key, text))
}

/// One client's share of `total` if the manifest sets none: half, so that two clients get as much.
fn share(total: usize) -> usize {
    total.div_ceil(2)
}

fn memory(text: &str) -> Result<usize, String> {
    let bytes = bytes("memory", text)?;
    match usize::try_from(bytes) {
        Ok(size) if bytes <= MEMORY_CEILING => Ok(size),
        _ => Err(format!("memory = \"{text}\" is above the limit of {}; lower it", ByteSize(MEMORY_CEILING))),
    }
}

fn bytes(key: &str, text: &str) -> Result<u64, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(bytes)) if bytes > 0 => Ok(bytes),
        _ => Err(format!("{key} = \"{text}\" is not a size; write a number and a unit, such as \"256MiB\"")),
    }
}

pub(super) fn duration(key: &str, text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    match parsed.and_then(|duration| Duration::try_from(duration).ok()) {
        Some(duration) if duration > LONGEST => Err(format!("{key} = \"{text}\" is more than a year; lower it")),
        Some(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(format!("{key} = \"{text}\" is not a duration; write a number and a unit, such as \"60s\"")),
    }
}

fn count(key: &str, value: u64, ceiling: usize) -> Result<usize, String> {
    match usize::try_from(value) {
        Ok(count) if (1..=ceiling).contains(&count) => Ok(count),
        _ => Err(format!("{key} = {value} is out of range; write a number from 1 to {ceiling}")),
    }
}
