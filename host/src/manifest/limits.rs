//! The limits of one component, from its `tool.hexad` table.

use std::time::Duration;

use bytesize::ByteSize;
use jiff::SignedDuration;

use super::schema::{HexadTool, OutboundTool, RouteTool};
use crate::imports::outbound::OutboundLimits;
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

/// The bounds of one component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory per instance, summed over all of its memories.
    pub memory: usize,
    /// Concurrent requests. Each has an instance of its own.
    pub instances: usize,
    /// Concurrent requests of one client, told apart by address and by credential.
    pub instances_per_client: usize,
    /// Time that a request waits when all instances are busy.
    pub queue_timeout: Duration,
    /// Requests that an instance serves, one after the other, before it is dropped. `None`: the
    /// default for the component's generation of `wasi:http`.
    pub reuse: Option<usize>,
    /// Time after which an instance without a request is dropped.
    pub idle_timeout: Duration,
    /// Lines per second that the component may print.
    pub log_lines: u32,
    pub outbound: OutboundLimits,
    /// Of each request whose route has no limits of its own.
    pub request: RequestLimits,
}

/// The bounds of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Time from the last received byte of the request to the head of the response.
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
            reuse: None,
            idle_timeout: Duration::from_secs(10),
            log_lines: 100,
            outbound: OutboundLimits::default(),
            request: RequestLimits::default(),
        }
    }
}

impl Limits {
    pub(super) fn from_tool(tool: &HexadTool) -> Result<Self, String> {
        let default = Self::default();
        let memory = match &tool.memory {
            None => default.memory,
            Some(text) => memory(text)?,
        };
        let instances = match tool.instances {
            None => default.instances,
            Some(value) => count("instances", value, INSTANCES_CEILING)?,
        };
        Ok(Self {
            memory,
            instances,
            instances_per_client: match tool.instances_per_client {
                None => share(instances),
                Some(value) => count("instances_per_client", value, instances)?,
            },
            queue_timeout: match &tool.queue_timeout {
                None => default.queue_timeout,
                Some(text) => duration("queue_timeout", text)?,
            },
            idle_timeout: match &tool.idle_timeout {
                None => default.idle_timeout,
                Some(text) => duration("idle_timeout", text)?,
            },
            reuse: tool.reuse.map(|value| count("reuse", value, REUSE_CEILING)).transpose()?,
            log_lines: match tool.log_lines {
                None => default.log_lines,
                Some(value) => u32::try_from(count("log_lines", value, LOG_LINES_CEILING)?).unwrap_or(u32::MAX),
            },
            outbound: outbound(&tool.outbound).map_err(|reason| format!("outbound.{reason}"))?,
            request: default.request.overridden_by(&tool.request_limits())?,
        })
    }
}

impl RequestLimits {
    /// These limits, with those that `tool` sets in their place.
    fn overridden_by(&self, tool: &RouteTool) -> Result<Self, String> {
        let time = |key: &str, text: &Option<String>, default: Duration| match text {
            None => Ok(default),
            Some(text) => duration(key, text),
        };
        let size = |key: &str, text: &Option<String>, default: u64| match text {
            None => Ok(default),
            Some(text) => bytes(key, text),
        };
        Ok(Self {
            request_timeout: time("request_timeout", &tool.request_timeout, self.request_timeout)?,
            transfer_timeout: time("transfer_timeout", &tool.transfer_timeout, self.transfer_timeout)?,
            cpu_time: time("cpu_time", &tool.cpu_time, self.cpu_time)?,
            max_body: size("max_body", &tool.max_body, self.max_body)?,
            max_response: size("max_response", &tool.max_response, self.max_response)?,
        })
    }

    /// The limits of the routes in the table `routes`. What a route does not set is as in `self`.
    pub(super) fn of_routes(&self, tool: &HexadTool) -> Result<RouteLimits, String> {
        let limits = |(pattern, route): (&String, &RouteTool)| {
            let limits = self.overridden_by(route).map_err(|reason| format!("routes.\"{pattern}\".{reason}"))?;
            Ok((pattern.clone(), limits))
        };
        let limits: Vec<_> = tool.routes.iter().map(limits).collect::<Result<_, String>>()?;
        Router::new(limits).map_err(|error| format!("routes: {error}"))
    }
}

fn outbound(tool: &OutboundTool) -> Result<OutboundLimits, String> {
    let default = OutboundLimits::default();
    let time = |key: &str, text: &Option<String>, default: Duration| match text {
        None => Ok(default),
        Some(text) => duration(key, text),
    };
    let network = |text: &String| {
        let reason = |_| format!("networks has \"{text}\", which is no network; write one such as \"10.0.0.0/8\"");
        text.parse().map_err(reason)
    };
    let requests = match tool.requests {
        None => default.requests,
        Some(value) => count("requests", value, OUTBOUND_CEILING)?,
    };
    Ok(OutboundLimits {
        requests,
        requests_per_client: match tool.requests_per_client {
            None => share(requests),
            Some(value) => count("requests_per_client", value, requests)?,
        },
        queue_timeout: time("queue_timeout", &tool.queue_timeout, default.queue_timeout)?,
        connect_timeout: time("connect_timeout", &tool.connect_timeout, default.connect_timeout)?,
        head_timeout: time("head_timeout", &tool.head_timeout, default.head_timeout)?,
        idle_timeout: time("idle_timeout", &tool.idle_timeout, default.idle_timeout)?,
        timeout: time("timeout", &tool.timeout, default.timeout)?,
        max_response: match &tool.max_response {
            None => default.max_response,
            Some(text) => bytes("max_response", text)?,
        },
        coalesce: tool.coalesce,
        networks: tool.networks.iter().map(network).collect::<Result<_, _>>()?,
    })
}

/// What one client gets of `total` if the manifest does not say: half, so that another one gets as much.
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
