//! Requests and their responses. Only this module knows a status.

use crate::route::{self, Route};
use crate::store::{self, Change, Definition, ExperimentEntity, SaveError, StoredDefinitions, TYPE};
use bytes::Bytes;
use directory::access::Role;
use directory::caller::{self, BOOTSTRAP_ADMIN_TOKEN, Caller, INVALID_TOKENS};
use directory::feature::{self, Features};
use directory::member::Source;
use directory::reauthorization::{self, AdminRequest};
use directory::token::LAST_USE_MINUTES;
use directory::{namespace, record_cache, setting};
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use kit::body::BodyError;
use kit::env::EXTERNAL_URL;
use kit::maintenance::{self, Task};
use kit::ndjson::{self, ImportReport, LineReader};
use kit::{Env, Error, Request, Response};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::rc::Rc;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[BOOTSTRAP_ADMIN_TOKEN, EXTERNAL_URL, INVALID_TOKENS, LAST_USE_MINUTES];

/// The largest import, in bytes: a few times the largest stored size.
const MAX_IMPORT: u64 = 8 << 20;

/// Answers one request.
pub async fn handle(env: Env, request: Request) -> Response {
    dispatch(&env, request).await.unwrap_or_else(Response::from)
}

async fn dispatch(env: &Env, mut request: Request) -> Result<Response, Error> {
    let route = route::parse(&request.method, &request.path)?;
    let env = &record_cache::attach(env)?;
    match route {
        Route::List => list(env, &request, &caller::api_user(env, &request)?),
        Route::Import => import(env, &caller::api_user(env, &request)?, request).await,
        Route::Check => {
            let limit = maintenance::MAX_BODY;
            let (env, caller) = reauthorization::with_body(env, &mut request, limit, caller::api_user).await?;
            maintenance::answer(&env, request, caller.is_admin(), Task::Check, &StoredDefinitions(&env)).await
        }
    }
}

fn list(env: &Env, request: &Request, caller: &Caller) -> Result<Response, Error> {
    if !is_operator_team_member(env, caller)? {
        return Err(Error::forbidden());
    }
    let list = RenderedList::load(env)?;
    let is_unchanged = request.header(IF_NONE_MATCH).is_some_and(|tags| {
        tags.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim().trim_start_matches("W/") == list.tag)
    });
    let mut response = match is_unchanged {
        true => Response::new(StatusCode::NOT_MODIFIED),
        false => {
            let mut response = Response::new(StatusCode::OK);
            response.body = list.body.clone().into();
            response.with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
        }
    };
    response.headers.insert(ETAG, list.weak_tag.clone());
    Ok(response)
}

/// Whether the caller is a human and a direct member of the operator's group, on the hosted site.
/// Administrators need the membership, too.
fn is_operator_team_member(env: &Env, caller: &Caller) -> Result<bool, Error> {
    let settings = setting::read(env)?;
    let Some(session) = caller.session().filter(|session| settings.hosted() && !session.user.bot) else {
        return Ok(false);
    };
    let Some(path) = settings.operator_group().filter(|path| !path.contains('/')) else {
        return Ok(false);
    };
    let Some(group) = namespace::find_group(env, path)?.filter(|group| group.parent.is_none()) else {
        return Ok(false);
    };
    Ok(session.memberships(env)?.role(Source::Group(group.id), env.now) > Role::None)
}

/// The body of `GET /experiments`, with the records that it was rendered from.
struct RenderedList {
    definitions: Rc<Vec<Definition>>,
    features: Rc<Features>,
    body: Bytes,
    /// The entity tag, in quotes.
    tag: String,
    weak_tag: HeaderValue,
}

impl RenderedList {
    /// The current list, from the instance's cache if the records have not changed.
    fn load(env: &Env) -> Result<Rc<RenderedList>, Error> {
        let (definitions, features) = (store::read(env)?, feature::all(env)?);
        // An instance decodes a record once, so this usually compares two pointers.
        let is_current = |list: &Rc<RenderedList>| (&list.definitions, &list.features) == (&definitions, &features);
        if let Some(list) = env.instance_cache.get::<RenderedList>().filter(is_current) {
            return Ok(list);
        }
        let entity = |definition| store::entity(definition, features.get(&definition.name));
        let entities: Vec<ExperimentEntity> = definitions.iter().map(entity).collect();
        let body = serde_json::to_vec(&entities).map_err(|why| Error::internal(why.to_string()))?;
        let mut tag = hex::encode(Sha256::digest(&body));
        tag.truncate(32);
        let tag = format!("\"{tag}\"");
        let weak_tag = HeaderValue::try_from(format!("W/{tag}")).map_err(|why| Error::internal(why.to_string()))?;
        let list = Rc::new(RenderedList { definitions, features, body: body.into(), tag, weak_tag });
        env.instance_cache.put(list.clone());
        Ok(list)
    }
}

async fn import(env: &Env, caller: &Caller, mut request: Request) -> Result<Response, Error> {
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    let body = std::mem::take(&mut request.body).collect(MAX_IMPORT).await?;
    AdminRequest::new(request).authorize(env)?;
    let (changes, report) = read_changes(body).await?;
    match store::apply(env, &changes) {
        Ok(()) => Ok(Response::ok(&report)),
        Err(SaveError::Store(error)) => Err(error.into()),
        Err(SaveError::TooLarge(limit)) => {
            Err(Error::bad_request(&format!("all experiments together may take {limit} bytes at most")))
        }
    }
}

const KIND: &str = "experiment";

/// The longest name, in bytes, as for features.
const MAX_NAME: usize = 255;

#[derive(Deserialize)]
struct ImportLine {
    kind: String,
    #[serde(default)]
    deleted: bool,
    definition: Option<Fields>,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Deserialize, Default)]
struct Fields {
    name: Option<String>,
    introduced_by_url: Option<String>,
    rollout_issue_url: Option<String>,
    milestone: Option<String>,
    #[serde(rename = "type")]
    of_type: Option<String>,
    group: Option<String>,
    #[serde(default)]
    default_enabled: bool,
}

/// The changes that a body contains, and a report that names the bad lines.
pub async fn read_changes(body: Vec<u8>) -> Result<(Vec<Change>, ImportReport), BodyError> {
    let mut report = ImportReport::default();
    let mut changes = Vec::new();
    let max_line = body.len();
    let mut lines = LineReader::new(body.into(), max_line);
    while let Some(line) = lines.next().await? {
        let change = line.text.map_err(|too_long| too_long.to_string()).and_then(|text| parse(&text));
        match change {
            Ok(change) => {
                changes.push(change);
                report.imported(KIND);
            }
            Err(error) => report.failed(line.number, error),
        }
    }
    Ok((changes, report))
}

fn parse(line: &[u8]) -> Result<Change, String> {
    // serde would accept an array, too, as the fields of a struct in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err("the line is not a JSON object".into());
    }
    let ImportLine { kind, deleted, definition, fields } =
        serde_json::from_slice(line).map_err(|why| ndjson::json_error(&why))?;
    if kind != KIND {
        return Err(format!("kind `{kind}` is not {KIND}"));
    }
    let fields = definition.unwrap_or(fields);
    let name = fields.name.ok_or("name is missing")?;
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'/');
    if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(is_allowed) {
        return Err("name has characters that no feature's name has, or is too long".into());
    }
    if deleted {
        return Ok(Change::Delete(name));
    }
    if let Some(other) = fields.of_type.filter(|of_type| of_type != TYPE) {
        return Err(format!("type `{other}` is not {TYPE}"));
    }
    if fields.default_enabled {
        return Err("default_enabled of an experiment is always false".into());
    }
    Ok(Change::Save(Definition {
        name,
        introduced_by_url: fields.introduced_by_url,
        rollout_issue_url: fields.rollout_issue_url,
        milestone: fields.milestone,
        group: fields.group,
    }))
}

#[cfg(test)]
mod tests;
