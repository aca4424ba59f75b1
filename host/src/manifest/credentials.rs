//! Which headers and query parameters have a component's credentials, from its `tool.hexad` table.

use http::HeaderName;

use super::schema::HexadTool;
use crate::credentials::Credentials;

pub fn from_tool(tool: &HexadTool) -> Result<Credentials, String> {
    let Some(declared) = &tool.credentials else {
        return Ok(Credentials::default());
    };
    let header = |name: &String| {
        name.parse::<HeaderName>()
            .map_err(|_| format!("credentials.headers: {name:?} is not the name of a header; correct it"))
    };
    Ok(Credentials {
        headers: declared.headers.iter().map(header).collect::<Result<_, _>>()?,
        parameters: declared.parameters.clone(),
        is_declared: true,
    })
}
