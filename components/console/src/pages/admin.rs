//! Tokens, features and settings, for administrators.

use crate::forge::ForgeError;
use crate::layout::{self, Column, Content, Section, form_token, pages};
use crate::page_context::{Alert, PageContext, PageError, User};
use crate::route;
use futures::future::try_join_all;
use http::{Method, StatusCode};
use kit::params::Params;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Tokens of one page.
const PAGE: u64 = 20;

/// The scopes that the form offers.
const SCOPES: [&str; 3] = ["api", "read_api", "read_user"];

#[derive(Deserialize)]
struct Token {
    id: u64,
    name: String,
    user_id: u64,
    #[serde(default)]
    scopes: Vec<String>,
    active: bool,
    revoked: bool,
    expires_at: Option<String>,
    last_used_at: Option<String>,
}

#[derive(Deserialize)]
struct Feature {
    name: String,
    state: String,
    #[serde(default)]
    gates: Vec<Value>,
}

/// The active tokens of one page.
struct TokenPage {
    tokens: Vec<Token>,
    /// The usernames, by id.
    users: BTreeMap<u64, String>,
    page: u64,
    has_next: bool,
}

pub async fn show(context: &PageContext<'_>) -> Result<Content, PageError> {
    // Settings come first: the API refuses them to everyone but administrators.
    let settings: Map<String, Value> = context.forge.get("application/settings").await?;
    let (tokens, features) =
        futures::try_join!(list_tokens(context), async { Ok(context.forge.get::<Vec<Feature>>("features").await?) })?;
    let body = html! {
        div.head { h1 { "Administration" } p.lead { "Tokens of users, features, and settings." } }
        (token_section(context, &tokens))
        (feature_section(context, &features))
        (setting_section(context, &settings))
    };
    Ok(Content::new("Administration", Section::Admin, body))
}

/// The tokens that the visitor searches for, or the reason why they are not listed. The API limits the users that it
/// reads, and the rest of the page does not need the tokens.
async fn list_tokens(context: &PageContext<'_>) -> Result<Result<TokenPage, String>, PageError> {
    let text = |name: &str| context.params.text(name).unwrap_or_default();
    let of_user = match text("user").trim() {
        "" => String::new(),
        user => match find_user_id(context, user).await? {
            Some(id) => format!("&user_id={}", encode(&id)),
            None => return Ok(Err(format!("There is no user {user}."))),
        },
    };
    let (search, page) = (encode(text("q")), context.page()?);
    let path = format!("personal_access_tokens?state=active&search={search}&page={page}&per_page={PAGE}{of_user}");
    let answer = match context.forge.send(Method::GET, &path, None).await {
        Err(ForgeError::Refused { status: StatusCode::BAD_REQUEST, reason, .. }) => return Ok(Err(reason)),
        answer => answer?,
    };
    let has_next = answer.number("x-next-page").is_some();
    let tokens: Vec<Token> = answer.json()?;
    context.require_entries(page, tokens.is_empty())?;
    let users = users(context, &tokens).await?;
    Ok(Ok(TokenPage { tokens, users, page, has_next }))
}

/// The id of the user with this id or username.
async fn find_user_id(context: &PageContext<'_>, user: &str) -> Result<Option<String>, PageError> {
    #[derive(Deserialize)]
    struct Found {
        id: u64,
    }
    if user.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(Some(user.to_owned()));
    }
    let found: Vec<Found> = context.forge.get(&format!("users?username={}", encode(user))).await?;
    Ok(found.first().map(|found| found.id.to_string()))
}

/// The usernames of the tokens' users.
async fn users(context: &PageContext<'_>, tokens: &[Token]) -> Result<BTreeMap<u64, String>, PageError> {
    let ids: BTreeSet<u64> = tokens.iter().map(|token| token.user_id).collect();
    let users = try_join_all(ids.into_iter().map(async |id| {
        let user: Option<User> = context.forge.find(&format!("users/{id}")).await?;
        Ok::<_, PageError>(user.map(|user| (id, user.username)))
    }));
    Ok(users.await?.into_iter().flatten().collect())
}

fn token_section(context: &PageContext<'_>, page: &Result<TokenPage, String>) -> Markup {
    let [search, user] = ["q", "user"].map(|name| context.params.text(name).unwrap_or_default());
    html! {
        section.card #tokens aria-label="Tokens" {
            h2 { "Active tokens" }
            form.actions action=(context.link(route::ADMIN)) {
                label { "Search by name" input type="search" name="q" value=(search); }
                label { "User, by id or username" input type="search" name="user" value=(user); }
                button.quiet { "Search" }
            }
            p {}
            @match page {
                Ok(page) => {
                    (token_table(context, page))
                    (pages(page.page, page.has_next, |page| {
                        let list = format_args!("{}?q={}&user={}&page={page}", route::ADMIN, encode(search), encode(user));
                        context.link(list)
                    }))
                }
                Err(reason) => p.alert.error role="alert" { "These tokens cannot be listed: " bdi { (reason) } }
            }
            details {
                summary { "Make a token for a user" }
                form method="post" action=(context.link(route::ADMIN)) {
                    (form_token(context.visitor))
                    div.fields {
                        label { "User, by id or username" input name="user" required; }
                        label { "Name of the token" input name="name" required maxlength="255"; }
                        label { "Expires (empty: after the default lifetime)" input type="date" name="expires_at"; }
                    }
                    div.actions {
                        @for scope in SCOPES {
                            label.check {
                                input type="checkbox" name="scopes" value=(scope) checked[scope == "read_api"]; (scope)
                            }
                        }
                        button name="action" value="create" { "Make it" }
                    }
                }
            }
        }
    }
}

fn token_table(context: &PageContext<'_>, page: &TokenPage) -> Markup {
    let columns = ["Name", "User", "Scopes", "Expires", "Last used", "Revoke"].map(Column::text);
    layout::table(
        "Table of tokens",
        &columns,
        html! {
            @for token in &page.tokens {
                tr {
                    th scope="row" { @if token.name.is_empty() { "unnamed" } @else { bdi { (token.name) } } }
                    td { bdi { (page.users.get(&token.user_id).cloned().unwrap_or_else(|| token.user_id.to_string())) } }
                    td { @for scope in &token.scopes { span.badge { bdi { (scope) } } " " } }
                    td { (token.expires_at.as_deref().unwrap_or("never")) }
                    td {
                        @if let Some(moment) = &token.last_used_at { (layout::time(moment)) } @else { "–" }
                    }
                    td {
                        @if token.active && !token.revoked {
                            form.inline method="post" action=(context.link(route::ADMIN)) data-confirm="Revoke this token? Its user is refused at once." {
                                (form_token(context.visitor))
                                input type="hidden" name="id" value=(token.id);
                                button.danger name="action" value="revoke" aria-label={
                                    "Revoke the token " (token.name)
                                }
                                { "Revoke" }
                            }
                        }
                    }
                }
            }
        },
    )
}

fn feature_section(context: &PageContext<'_>, features: &[Feature]) -> Markup {
    html! {
        section.card #features aria-label="Features" {
            h2 { "Features" }
            (layout::table("Table of features", &[Column::text("Feature"), Column::text("State"), Column::text("Gates"), Column::text("Switch")], html! {
                @for feature in features {
                    tr {
                        th scope="row" { bdi { (feature.name) } }
                        td {
                            span class={ "badge " (if feature.state == "on" { "good" } else { "" }) }
                            { (feature.state) }
                        }
                        td {
                            @for gate in &feature.gates {
                                div {
                                    bdi { (gate.get("key").and_then(Value::as_str).unwrap_or_default()) } ": " bdi { (gate.get("value").map(Value::to_string).unwrap_or_default()) }
                                }
                            }
                        }
                        td {
                            form.inline method="post" action=(context.link(route::ADMIN)) {
                                (form_token(context.visitor))
                                input type="hidden" name="feature" value=(feature.name);
                                @let is_on = feature.state == "on";
                                input type="hidden" name="value" value=(if is_on { "false" } else { "true" });
                                button.quiet name="action" value="switch" aria-label={
                                    "Turn " (feature.name) (if is_on { " off" } else { " on" })
                                }
                                { (if is_on { "Turn off" } else { "Turn on" }) }
                            }
                        }
                    }
                }
            }))
            form method="post" action=(context.link(route::ADMIN)) {
                (form_token(context.visitor))
                div.actions {
                    label { "Another feature" input name="feature" required pattern="[A-Za-z0-9_.:\\/\\-]+"; }
                    input type="hidden" name="value" value="true";
                    button.quiet name="action" value="switch" { "Turn on" }
                }
            }
        }
    }
}

fn setting_section(context: &PageContext<'_>, settings: &Map<String, Value>) -> Markup {
    html! {
        section.card #settings aria-label="Settings" {
            h2 { "Settings" }
            details {
                summary { (settings.len()) " settings" }
                (layout::table("Table of settings", &[Column::text("Setting"), Column::text("Value")], html! {
                    @for (name, value) in settings {
                        tr { th scope="row" { bdi { (name) } } td { (layout::code(&shown(value))) } }
                    }
                }))
            }
            form method="post" action=(context.link(route::ADMIN)) {
                (form_token(context.visitor))
                div.actions {
                    label { "Setting" input name="setting" required list="setting-names"; }
                    datalist #setting-names { @for name in settings.keys() { option value=(name) {} } }
                    label { "New value (JSON, or text)" input name="value"; }
                    button name="action" value="set" { "Change" }
                }
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub async fn submit(context: &PageContext<'_>, form: &Params) -> Result<Alert, PageError> {
    let field = |field: &str| {
        let missing = || PageError::Invalid(format!("The field “{field}” is missing."));
        form.text(field).map(str::trim).filter(|value| !value.is_empty()).ok_or_else(missing)
    };
    match form.text("action").unwrap_or_default() {
        "create" => {
            let user = field("user")?;
            let owner = if user.bytes().all(|byte| byte.is_ascii_digit()) { "user_id" } else { "username" };
            let scopes = form.list("scopes").unwrap_or_default();
            let mut body = json!({"name": field("name")?, "scopes": scopes, owner: user});
            if let (Some(end), Some(body)) = (form.text("expires_at"), body.as_object_mut()) {
                body.insert("expires_at".to_owned(), end.into());
            }
            let answer = context.forge.send(Method::POST, "personal_access_tokens", Some(&body)).await?;
            let made: Value = answer.json()?;
            let secret = made.get("token").and_then(Value::as_str).map(str::to_owned);
            let end = made.get("expires_at").and_then(Value::as_str);
            let end = end.map_or("does not expire".to_owned(), |day| format!("expires on {day}"));
            let text = format!("The token for {user} is made and {end}. It is shown this once:");
            Ok(Alert { secret, ..Alert::success(text) })
        }
        "revoke" => {
            let id = field("id")?;
            context.forge.send(Method::DELETE, &format!("personal_access_tokens/{}", encode(id)), None).await?;
            Ok(Alert::success("The token is revoked."))
        }
        "switch" => {
            let (feature, value) = (field("feature")?, field("value")?);
            let path = format!("features/{}", encode(feature));
            context.forge.send(Method::POST, &path, Some(&json!({"value": value == "true"}))).await?;
            Ok(Alert::success(format!("The feature {feature} is {}.", if value == "true" { "on" } else { "off" })))
        }
        "set" => {
            let (setting, text) = (field("setting")?, form.text("value").unwrap_or_default());
            let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
            context.forge.send(Method::PUT, "application/settings", Some(&json!({setting: value}))).await?;
            Ok(Alert::success(format!("The setting {setting} is changed.")))
        }
        _ => Err(PageError::Invalid("This form asks for something unknown.".to_owned())),
    }
}
