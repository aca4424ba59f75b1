//! Personal tokens. Administrators manage the tokens of all users, other users only their own. For these users every
//! other token is 401, whether it exists or not, as in the reference service.

use crate::parameters;
use crate::route::TokenName;
use crate::token_list::{self, TokenFilter};
use crate::tokens::{self, UserName};
use directory::caller::{self, AcceptedTokens, Caller};
use directory::token::{self, Fingerprint, MAX_TOKENS, NewPersonalToken, PersonalToken, Rotation, TokenId};
use directory::{catalog, request_limits, setting, user};
use http::StatusCode;
use kit::keyset::{self, SortKey};
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::{Env, Error, Request, Response};
use serde_json::Value;

/// The error text for a refused numbered page.
const TOO_MANY_READS: &str = "the page is too far in a long list, or few of its tokens pass: \
                              ask with user_id, or with pagination=keyset and in the order of ids";

/// `GET /personal_access_tokens`.
pub fn list(env: &Env, caller: &Caller, request: &Request) -> Result<Response, Error> {
    let params = request.params();
    let checks = Validation::new(&params);
    let filter = TokenFilter::check(&checks);
    let page = Pagination::check(&checks);
    let is_keyset = keyset::is_asked_for(&checks);
    let cursor = checks.text("cursor").filter(|_| is_keyset);
    let after = cursor.map(|cursor| SortKey::parse_cursor(cursor, "id").map(|key| TokenId::parse(key.id)));
    if after == Some(None) {
        checks.reject("cursor is invalid");
    }
    checks.finish()?;
    let user = caller.user_or_401()?;
    let requested = filter.user_id.map(|id| u64::try_from(id).unwrap_or(0));
    let users = match (user.is_admin, requested) {
        (false, Some(id)) if id != user.id => return Err(Error::unauthorized()),
        (false, _) => vec![user.id],
        (true, Some(id)) => vec![user::by_id(env, id)?.ok_or_else(not_found)?.id],
        (true, None) => all_users(env)?,
    };
    let render = |found: &[PersonalToken]| {
        let shown: Vec<Value> = found.iter().map(|token| tokens::to_json(token, env.now)).collect();
        Response::ok(&shown)
    };
    let given = TokenFilter::PARAMETERS.into_iter().filter_map(|name| Some((name, params.text(name)?)));
    let mut given: Vec<(&str, &str)> = given.collect();
    let url = format!("{}{}", env.external_url(request), request.path);
    if !is_keyset {
        let found = token_list::page(env, users, &filter, page, token_list::MAX_READS)?;
        let found = found.ok_or_else(|| Error::bad_request(TOO_MANY_READS))?;
        // With an unknown total, the response has no total.
        let total = found.total.unwrap_or(u64::MAX);
        return Ok(page.describe(render(&found.tokens), &url, &given, total));
    }
    if !filter.is_by_id() {
        return Err(keyset::unavailable());
    }
    let (after, limit) = (after.flatten(), page.per_page as usize);
    let found = token_list::keyset_page(env, users, &filter, after, limit, token_list::KEYSET_READS)?;
    let response = render(&found.tokens);
    let Some(next) = found.next else { return Ok(response) };
    let per_page = page.per_page.to_string();
    given.push(("per_page", &per_page));
    let cursor = SortKey { text: String::new(), id: next.get() }.to_cursor("id");
    Ok(keyset::with_next_page(response, &url, &given, ("cursor", &cursor)))
}

/// The ids of all users, in ascending order.
fn all_users(env: &Env) -> Result<Vec<u64>, Error> {
    let catalog = catalog::read(env)?;
    let mut user_ids: Vec<u64> = catalog.namespaces().filter_map(|namespace| namespace.owner()).collect();
    user_ids.sort_unstable();
    Ok(user_ids)
}

/// `POST /personal_access_tokens`, `POST /users/:id/personal_access_tokens`.
pub async fn create(env: &Env, caller: &Caller, user: Option<String>, request: Request) -> Result<Response, Error> {
    let mut fields = parameters::read(request).await?;
    if let Some(user) = user {
        fields.remove("username");
        fields.insert("user_id".to_owned(), user.into());
    }
    request_limits::check_write(env, caller, &request_limits::TOKENS)?;
    let new_token = tokens::parse(&fields, env.now)?;
    if !caller.is_admin() {
        return Err(Error::forbidden());
    }
    let user = match &new_token.user {
        UserName::Id(id) => user::by_id(env, *id)?,
        UserName::Username(name) => user::by_username(env, name)?,
    };
    let user = user.ok_or_else(|| Error::not_found("User"))?;
    let end = tokens::default_end(setting::read(env)?.token_lifetime(), env.now);
    let new = NewPersonalToken { expires_at: new_token.new.expires_at.or(end), ..new_token.new };
    let secret = tokens::generate_secret(&*env.entropy);
    let created = token::create(env, user.id, &Fingerprint::of(secret.as_bytes()), new)?;
    let created = created.ok_or_else(too_many_tokens)?;
    Ok(Response::json(StatusCode::CREATED, &tokens::to_json_with_secret(&created, &secret, env.now)))
}

/// `GET /personal_access_tokens/:id` and `…/self`.
pub fn show(env: &Env, caller: &Caller, name: &TokenName, request: &Request) -> Result<Response, Error> {
    let token = find(env, caller, name, caller::presented_token(request, AcceptedTokens::Api)?)?;
    Ok(Response::ok(&tokens::to_json(&token, env.now)))
}

/// `DELETE /personal_access_tokens/:id` and `…/self`. 400 for the token of another user and 404 for an unknown one, as
/// in the reference service.
pub fn revoke(env: &Env, caller: &Caller, name: &TokenName, request: &Request) -> Result<Response, Error> {
    let presented = caller::presented_token(request, AcceptedTokens::Api)?;
    let token = match parse_id(name)? {
        None => find(env, caller, name, presented)?,
        Some(id) => {
            let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
            let token = token::by_id(env, id)?.ok_or_else(not_found)?;
            if !may_manage(caller, id) {
                return Err(Error::message(StatusCode::BAD_REQUEST, "400 Bad request"));
            }
            token
        }
    };
    token::revoke(env, &token.fingerprint)?;
    Ok(Response::no_content())
}

/// `POST /personal_access_tokens/:id/rotate` and `…/self/rotate`.
pub async fn rotate(env: &Env, caller: &Caller, name: &TokenName, request: Request) -> Result<Response, Error> {
    let presented = caller::presented_token(&request, AcceptedTokens::Api)?;
    request_limits::check_write(env, caller, &request_limits::TOKENS)?;
    let params = Params::from_json(&parameters::read(request).await?)?;
    let end = tokens::rotation_end(&params, env.now)?;
    let old = find(env, caller, name, presented)?;
    let secret = tokens::generate_secret(&*env.entropy);
    match token::rotate(env, &old, &Fingerprint::of(secret.as_bytes()), end)? {
        Rotation::Done(new) => Ok(Response::ok(&tokens::to_json_with_secret(&new, &secret, env.now))),
        Rotation::AlreadyRevoked => Err(Error::bad_request("token already revoked")),
        Rotation::TooManyTokens => Err(too_many_tokens()),
    }
}

/// The token needs one of these scopes. `None` means that a token of any scope may read or revoke itself.
pub fn scopes(
    name: &TokenName,
    is_rotation: bool,
    otherwise: &'static [&'static str],
) -> Option<&'static [&'static str]> {
    match name {
        TokenName::Presented if is_rotation => Some(&["api", "self_rotate"]),
        TokenName::Presented => None,
        TokenName::Id(_) => Some(otherwise),
    }
}

/// Finds a token that the caller may manage.
fn find(env: &Env, caller: &Caller, name: &TokenName, presented: Option<Fingerprint>) -> Result<PersonalToken, Error> {
    let Some(id) = parse_id(name)? else {
        let found = presented.map(|fingerprint| token::by_fingerprint(env, &fingerprint)).transpose()?.flatten();
        // The token of the built-in administrator has no record.
        let no_record = "This endpoint requires token type to be a personal access token";
        return found.ok_or_else(|| Error::bad_request(no_record));
    };
    if !may_manage(caller, id) {
        return Err(Error::unauthorized());
    }
    let unknown = || if caller.is_admin() { not_found() } else { Error::unauthorized() };
    token::by_id(env, id)?.ok_or_else(unknown)
}

/// The id in a path; `None` for the token that the request presents.
fn parse_id(name: &TokenName) -> Result<Option<TokenId>, Error> {
    match name {
        TokenName::Presented => Ok(None),
        TokenName::Id(id) => match id.parse() {
            Ok(id) => Ok(Some(TokenId::parse(id))),
            Err(_) => Err(Error::validation("id is invalid")),
        },
    }
}

fn may_manage(caller: &Caller, id: TokenId) -> bool {
    caller.is_admin() || caller.user().is_some_and(|user| user.id == id.user_id)
}

/// Revokes the successors of a token that was rotated already and is presented for rotation again. Either this client
/// stole the token, or a thief rotated it first.
pub fn revoke_successors(env: &Env, request: &Request) -> Result<(), Error> {
    match caller::presented_token(request, AcceptedTokens::Api)? {
        Some(presented) => Ok(token::revoke_successors(env, &presented)?),
        None => Ok(()),
    }
}

fn not_found() -> Error {
    Error::message(StatusCode::NOT_FOUND, "404 Not Found")
}

pub fn too_many_tokens() -> Error {
    Error::bad_request(&format!("the user has {MAX_TOKENS} active tokens or more, and gets no other one"))
}
