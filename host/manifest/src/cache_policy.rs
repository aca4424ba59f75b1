//! Which responses of a component are cached, from its `tool.hexad` table.

use std::time::Duration;

use hexad_http::origin::CLIENT_ADDRESS;
use hexad_http::response_cache::CachePolicy;
use hexad_imports::outbound::AllowedHosts;
use hexad_telemetry::request_id::X_REQUEST_ID;
use http::HeaderName;

use super::limits::duration;
use super::schema::HexadTool;

/// The longest time that a response is cached. A guest can read the clock, and the passage of time invalidates no
/// cached response. So a response can be out of date by this much.
const MAX_AGE: Duration = Duration::from_secs(60);

/// `hosts` are the component's `allowed_outbound_hosts`. They may only be the application itself: the host does not
/// learn of changes in other services.
pub fn from_tool(tool: &HexadTool, hosts: &AllowedHosts) -> Result<Option<CachePolicy>, String> {
    let (text, names) = match (&tool.cache_max_age, &tool.cache_headers) {
        (None, None) => return Ok(None),
        (Some(text), Some(names)) => (text, names),
        (Some(_), None) => {
            return Err("`response_cache` needs `response_cache_headers`, the request headers that the component looks at; add them".into());
        }
        (None, Some(_)) => {
            return Err("`response_cache_headers` belongs to `response_cache`; add that or remove both".into());
        }
    };
    if !hosts.are_local() {
        return Err(
            "`response_cache` is not for a component with `allowed_outbound_hosts` other than \"http://self\"; \
                    remove one of them"
                .into(),
        );
    }
    let max_age = duration("response_cache", text)?;
    if max_age > MAX_AGE {
        return Err(format!("response_cache = \"{text}\" is above the limit of {} s; lower it", MAX_AGE.as_secs()));
    }
    let headers = names.iter().map(|name| {
        name.parse::<HeaderName>()
            .map_err(|_| format!("response_cache_headers: {name:?} is not the name of a header; correct it"))
    });
    let headers: Vec<HeaderName> = headers.collect::<Result<_, _>>()?;
    if headers.contains(&X_REQUEST_ID) {
        return Err(format!(
            "response_cache_headers: \"{X_REQUEST_ID}\" differs for each request, so nothing is cached; remove it"
        ));
    }
    // The component's own requests to the application carry the client's address.
    if *hosts != AllowedHosts::default() && !headers.contains(&CLIENT_ADDRESS) {
        return Err(format!(
            "`response_cache` with \"http://self\" needs \"{CLIENT_ADDRESS}\" in `response_cache_headers`; add it"
        ));
    }
    Ok(Some(CachePolicy { max_age, headers }))
}
