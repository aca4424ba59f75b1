//! Maintenance requests, which the host sends to a component periodically, from the component's
//! `tool.hexad` table.

use std::collections::BTreeMap;
use std::time::Duration;

use http::uri::PathAndQuery;

use super::limits::duration;
use super::schema::{HexadTool, MaintenanceTool};
use crate::random;

/// Bytes of a random token.
const TOKEN_BYTES: usize = 16;

/// A maintenance task of a component: a `POST` that the host sends periodically.
#[derive(Clone)]
pub struct Maintenance {
    pub path: PathAndQuery,
    /// Time from the end of one run to the beginning of the next.
    pub every: Duration,
    /// Sent as a bearer token.
    pub token: Option<String>,
}

/// Sets each empty variable that is a maintenance token to a random value, which only the host and the
/// components know.
pub fn make_tokens<'a>(
    tools: impl Iterator<Item = &'a HexadTool>,
    values: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for name in tools.filter_map(|tool| tool.maintenance.as_ref()?.token.as_ref()) {
        if let Some(value) = values.get_mut(name).filter(|value| value.is_empty()) {
            *value = random::token(TOKEN_BYTES).map_err(|error| format!("the system has no randomness: {error}"))?;
        }
    }
    Ok(())
}

pub fn from_tool(
    tool: &HexadTool,
    every: Option<Duration>,
    values: &BTreeMap<String, String>,
) -> Result<Option<Maintenance>, String> {
    let Some(MaintenanceTool { path, every: written, token }) = &tool.maintenance else {
        return Ok(None);
    };
    let declared = duration("maintenance.every", written)?;
    let is_path = path.starts_with('/');
    let path = path.parse::<PathAndQuery>().ok().filter(|_| is_path);
    let path = path.ok_or("maintenance.path is not a path; write one such as \"/tasks/cleanup\"")?;
    let token = token.as_ref().map(|name| {
        values.get(name).cloned().ok_or_else(|| {
            format!(
                "maintenance.token is \"{name}\", which is not in [variables]; declare it there or correct the name"
            )
        })
    });
    let every = every.unwrap_or(declared);
    Ok(Some(Maintenance { path, every, token: token.transpose()? }).filter(|_| !every.is_zero()))
}
