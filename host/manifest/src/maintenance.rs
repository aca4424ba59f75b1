//! Maintenance requests, which the host sends to a component periodically. A component's `tool.hexad` table has them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hexad_support::bearer_token::is_sendable;
use hexad_support::random;
use http::uri::PathAndQuery;

use super::limits::duration;
use super::schema::{HexadTool, MaintenanceTool};

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

/// The random tokens of this process, by variable, for variables without a value. Only the host and the components know
/// them.
#[derive(Default)]
pub struct MaintenanceTokens(Mutex<BTreeMap<String, String>>);

impl MaintenanceTokens {
    /// Sets each empty variable of a maintenance token to the variable's token. At first use, the host draws a token.
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
    let token = token.as_ref().map(|name| bearer_token(name, values)).transpose()?;
    let every = every.unwrap_or(declared);
    Ok(Some(Maintenance { path, every, token }).filter(|_| !every.is_zero()))
}

/// The value of the variable. An error does not show it.
fn bearer_token(name: &str, values: &BTreeMap<String, String>) -> Result<String, String> {
    let Some(token) = values.get(name) else {
        return Err(format!(
            "maintenance.token is \"{name}\", which is not in [variables]; declare it there or correct the name"
        ));
    };
    if !is_sendable(token) {
        return Err(format!(
            "the value of the variable \"{name}\", which is maintenance.token, begins or ends with white space, \
             such as a line break, or has a control character or one that is not ASCII; correct it"
        ));
    }
    Ok(token.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_no_header_can_have_is_refused_and_not_shown() {
        let read = |token: &str| bearer_token("secret", &[("secret".to_owned(), token.to_owned())].into());
        assert_eq!(read("glpat-1").as_deref(), Ok("glpat-1"));
        for token in ["glpat-1\n", " glpat-1", "glpat\u{7f}1", "glpat\r\n1", "\u{a0}glpat-1"] {
            let error = read(token).unwrap_err();
            assert!(
                error.contains("\"secret\"") && error.contains("line break") && !error.contains("glpat"),
                "{error}"
            );
        }
    }
}
