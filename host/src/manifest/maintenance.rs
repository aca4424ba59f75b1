//! Maintenance requests, which the host sends to a component periodically, from the component's
//! `tool.hexad` table.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::uri::PathAndQuery;

use super::limits::duration;
use super::schema::{HexadTool, MaintenanceTool};
use crate::random;

/// Bytes of a random token.
const TOKEN_BYTES: usize = 16;

/// A maintenance task of a component: a `POST` that the host sends periodically.
#[derive(Clone, PartialEq, Eq)]
pub struct Maintenance {
    pub path: PathAndQuery,
    /// Time from the end of one run to the beginning of the next.
    pub every: Duration,
    /// Sent as a bearer token.
    pub token: Option<String>,
}

/// The tokens of this process, by the variables that have no value of their own. Only the host and the
/// components know them.
#[derive(Default)]
pub struct MaintenanceTokens(Mutex<BTreeMap<String, String>>);

impl MaintenanceTokens {
    /// Sets each empty variable that is a maintenance token to its token, a random one at first.
    pub(super) fn fill_in<'a>(
        &self,
        tools: impl Iterator<Item = &'a HexadTool>,
        values: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for name in tools.filter_map(|tool| tool.maintenance.as_ref()?.token.as_ref()) {
            let Some(value) = values.get_mut(name).filter(|value| value.is_empty()) else { continue };
            *value = match tokens.get(name) {
                Some(token) => token.clone(),
                None => {
                    let made = random::token(TOKEN_BYTES);
                    let token = made.map_err(|error| format!("the system has no randomness: {error}"))?;
                    tokens.insert(name.clone(), token.clone());
                    token
                }
            };
        }
        Ok(())
    }
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
