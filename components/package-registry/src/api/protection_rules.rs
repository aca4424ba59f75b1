//! The protection rules of a project's packages. The rules of the setting [`protection::SETTING`] hold besides, and are
//! shown without an id.

use super::access;
use super::error::same_text;
use super::name_owners::{require_user, with_body};
use super::request::RegistryRequest;
use crate::name_owner::is_pattern;
use crate::package_list::{self, NPM, parse_id};
use crate::store;
use directory::project::{Project, ProjectKey};
use directory::{protection, setting};
use http::StatusCode;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::{Error, Response};
use serde_json::{Map, Value};
use std::rc::Rc;

/// The most rules of a project. Every change of a package compares all of them.
const MAX_RULES: usize = 100;

const PATTERN: &str = "package_name_pattern";

/// The members of a rule with a level, and the levels of the reference service.
const LEVELS: [(&str, &[&str]); 2] = [
    ("minimum_access_level_for_push", &["maintainer", "owner", "admin"]),
    ("minimum_access_level_for_delete", &["owner", "admin"]),
];

/// `GET /projects/:id/packages/protection/rules`, in pages. For Maintainers, as all of these endpoints.
pub fn list(request: &RegistryRequest) -> Result<Response, Error> {
    let project = authorize(request)?;
    let page = Pagination::read(&request.http.params())?;
    let own = store::protection(&request.env, &project.key())?;
    let settings = setting::read(&request.env)?;
    let of_all = settings.all().get(protection::SETTING).and_then(Value::as_array).cloned().unwrap_or_default();
    let of_all = of_all.iter().filter(|rule| rule.get("project_id").is_none_or(|id| id.is_null() || *id == project.id));
    let rules: Vec<Value> = own
        .rules
        .iter()
        .map(|rule| render(rule, &project, false))
        .chain(of_all.map(|rule| render(rule, &project, true)))
        .collect();
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let shown: Vec<&Value> = rules.iter().skip(skip).take(page.per_page as usize).collect();
    Ok(page.describe(Response::ok(&shown), &request.url, &[], rules.len() as u64))
}

/// `POST /projects/:id/packages/protection/rules`.
pub async fn add(request: RegistryRequest) -> Result<Response, Error> {
    authorize(&request)?;
    let (request, rule) = with_rule(request, true).await?;
    let project = authorize(&request)?;
    let id = package_list::number(&request.env.id());
    let mut new = Map::from_iter([("id".to_owned(), Value::from(id))]);
    new.extend(rule);
    let new = save(&request, &project.key(), new)?;
    let mut response = Response::ok(&render(&new, &project, false));
    response.status = StatusCode::CREATED;
    Ok(response)
}

/// `PATCH /projects/:id/packages/protection/rules/:rule_id`.
pub async fn change(request: RegistryRequest, id: &str) -> Result<Response, Error> {
    authorize(&request)?;
    let (request, changes) = with_rule(request, false).await?;
    let project = authorize(&request)?;
    let mut rule = find(&request, &project.key(), id)?;
    rule.extend(changes);
    let changed = save(&request, &project.key(), rule)?;
    Ok(Response::ok(&render(&changed, &project, false)))
}

/// `DELETE /projects/:id/packages/protection/rules/:rule_id`.
pub fn remove(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    let project = authorize(request)?;
    let removed = find(request, &project.key(), id)?;
    store::update_protection(&request.env, &project.key(), |rules| -> Result<bool, Error> {
        let before = rules.len();
        rules.retain(|rule| rule.get("id") != removed.get("id"));
        Ok(rules.len() < before)
    })?;
    Ok(Response::no_content())
}

/// The request's project, whose packages the caller maintains. A person decides about rules.
fn authorize(request: &RegistryRequest) -> Result<Rc<Project>, Error> {
    require_user(&request.caller)?;
    access::refuse_moved(request)?;
    access::maintained_project(request)
}

/// Reads a rule, or changes of a rule, in the body. An empty level means no level.
async fn with_rule(request: RegistryRequest, is_new: bool) -> Result<(RegistryRequest, Map<String, Value>), Error> {
    let (request, body) = with_body(request).await?;
    let mut params = request.http.params();
    params.extend(Params::from_json(&body)?);
    let checks = Validation::new(&params);
    let pattern = if is_new { checks.required(PATTERN) } else { checks.text(PATTERN) };
    if pattern.is_some_and(|pattern| !is_pattern(pattern)) {
        checks.reject(
            "package_name_pattern must have characters of names, at most 255 of them, and at most 8 wildcards *",
        );
    }
    if is_new {
        checks.required("package_type");
    }
    checks.one_of("package_type", &[NPM]);
    let mut rule = Map::new();
    rule.extend(pattern.map(|pattern| (PATTERN.to_owned(), pattern.into())));
    for (member, levels) in LEVELS {
        let level = checks.one_of(member, levels);
        if params.has(member) || params.is_null(member) {
            rule.insert(member.to_owned(), level.into());
        }
    }
    checks.finish()?;
    Ok((request, rule))
}

/// The rule with an id that requests name.
fn find(request: &RegistryRequest, project: &ProjectKey, id: &str) -> Result<Map<String, Value>, Error> {
    let id = parse_id(id).map_err(|_| Error::validation("package_protection_rule_id is invalid"))?;
    let known = store::protection(&request.env, project)?;
    let found = known.rules.iter().find(|rule| id.is_some() && rule.get("id").and_then(Value::as_u64) == id);
    found.and_then(Value::as_object).cloned().ok_or_else(|| {
        let text = "Package protection rule not found";
        Error::pair(StatusCode::NOT_FOUND, "404 Package Protection Rule Not Found", text)
    })
}

/// Stores a rule, in place of the rule with its id.
fn save(request: &RegistryRequest, project: &ProjectKey, rule: Map<String, Value>) -> Result<Value, Error> {
    let refused = |text: &str| same_text(StatusCode::UNPROCESSABLE_ENTITY, text);
    if LEVELS.iter().all(|(member, _)| rule.get(*member).is_none_or(Value::is_null)) {
        return Err(refused("a rule needs minimum_access_level_for_push or minimum_access_level_for_delete"));
    }
    let rule = Value::from(rule);
    store::update_protection(&request.env, project, |rules| {
        if rules.contains(&rule) {
            return Ok(false);
        }
        rules.retain(|known| known.get("id") != rule.get("id"));
        if rules.len() >= MAX_RULES {
            let text = format!("the project has {MAX_RULES} rules, which is the most that it can have");
            return Err(refused(&text));
        }
        if rules.iter().any(|known| known.get(PATTERN) == rule.get(PATTERN)) {
            return Err(refused("Package name pattern has already been taken"));
        }
        rules.push(rule.clone());
        Ok(true)
    })?;
    Ok(rule)
}

fn render(rule: &Value, project: &Project, is_of_setting: bool) -> Value {
    let member = |name: &str| rule.get(name).cloned().unwrap_or_default();
    let mut row = Map::new();
    row.insert("id".into(), if is_of_setting { Value::Null } else { member("id") });
    row.insert("project_id".into(), project.id.into());
    row.insert(PATTERN.into(), member(PATTERN));
    row.insert("package_type".into(), NPM.into());
    row.extend(LEVELS.map(|(name, _)| (name.to_owned(), member(name))));
    row.insert("read_only".into(), is_of_setting.into());
    row.into()
}
