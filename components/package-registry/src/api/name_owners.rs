//! Who may publish a name below a top-level namespace: shown, and changed by Maintainers and Owners.

use super::access::{self, ownership};
use super::error::same_text;
use super::request::{RegistryRequest, event};
use crate::name::PackageName;
use crate::name_owner::{FurtherProject, MAX_FURTHER, NameAction, NameEvent, NameOwner, StoredProject};
use crate::route::Level;
use crate::store;
use directory::access::Role;
use directory::caller::Caller;
use directory::namespace::{self, Namespace};
use directory::project::{Project, ProjectKey, ProjectLookup};
use directory::record_cache;
use http::StatusCode;
use kit::{Env, Error, Response};
use serde_json::{Map, Value, json};
use std::rc::Rc;

/// The most bytes of a request's body.
const MAX_BODY: u64 = 4096;

/// The top-level namespace and the name of a request.
struct Subject {
    root: Namespace,
    name: PackageName,
}

/// `GET <prefix>/-/package_name_owners/:package_name`. Projects that the caller may not read are left out, and events
/// are for Maintainers. Reads: the name's record, and each project of it.
pub fn show(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    let subject = subject(request, name)?;
    let known = ownership::find(&request.env, &subject.root, &subject.name)?.ok_or_else(not_found)?;
    Ok(Response::ok(&render(request, &subject, &known)?))
}

/// `POST <prefix>/-/package_name_owners/:package_name/projects`: allows a project, or confirms one that had the name
/// before names had owners. For Maintainers of the owner or of the namespace; a confirmation is for those of the
/// namespace.
pub async fn allow(request: RegistryRequest, name: &str) -> Result<Response, Error> {
    let (request, body) = with_body(request).await?;
    let subject = subject(&request, name)?;
    let project = project(&request, &subject.root, &body)?;
    let event = event(&request.env, Some(&request.caller), NameAction::Allowed, Some(&project));
    let known = change(&request, &subject, &event, |known| {
        require_maintainer(&request, &subject.root, known, project.id)?;
        if known.is_owner(&project) {
            return Err(Error::validation("project_id is the owner of the name"));
        }
        let was_allowed = known.may_publish(&project, true);
        if !known.allow(&project) {
            let text = format!("the name has {MAX_FURTHER} further projects, which is the most that it can have");
            return Err(Error::validation(text));
        }
        Ok(!was_allowed)
    })?;
    let mut response = Response::ok(&render(&request, &subject, &known)?);
    response.status = StatusCode::CREATED;
    Ok(response)
}

/// `DELETE <prefix>/-/package_name_owners/:package_name/projects/:project_id`. For the same.
pub fn disallow(request: &RegistryRequest, name: &str, project: &str) -> Result<Response, Error> {
    require_user(&request.caller)?;
    let subject = subject(request, name)?;
    let id: u64 = project.parse().map_err(|_| Error::validation("project_id is invalid"))?;
    let mut event = event(&request.env, Some(&request.caller), NameAction::Disallowed, None);
    event.project = ProjectKey::parse(project).map(StoredProject);
    change(request, &subject, &event, |known| {
        require_maintainer(request, &subject.root, known, id)?;
        match known.disallow(id) {
            true => Ok(true),
            false => Err(Error::pair(StatusCode::NOT_FOUND, "404 Project Not Found", "Project not found")),
        }
    })?;
    Ok(Response::no_content())
}

/// `PUT <prefix>/-/package_name_owners/:package_name`: gives the name to another project. For Owners of the namespace.
pub async fn transfer(request: RegistryRequest, name: &str) -> Result<Response, Error> {
    let (request, body) = with_body(request).await?;
    let subject = subject(&request, name)?;
    require(role_in_root(&request, &subject.root)?, Role::Owner)?;
    let project = project(&request, &subject.root, &body)?;
    let event = event(&request.env, Some(&request.caller), NameAction::Transferred, Some(&project));
    let known = change(&request, &subject, &event, |known| {
        let is_change = !known.is_owner(&project);
        known.transfer(&project);
        Ok(is_change)
    })?;
    Ok(Response::ok(&render(&request, &subject, &known)?))
}

/// `DELETE <prefix>/-/package_name_owners/:package_name`: leaves the name to the next project that publishes it. For
/// Owners of the namespace. 409 while a project that may publish the name has versions.
pub fn release(request: &RegistryRequest, name: &str) -> Result<Response, Error> {
    require_user(&request.caller)?;
    let subject = subject(request, name)?;
    require(role_in_root(request, &subject.root)?, Role::Owner)?;
    let event = event(&request.env, Some(&request.caller), NameAction::Released, None);
    change(request, &subject, &event, |known| {
        for publisher in known.publishers(false) {
            let present = ownership::present(&request.env, &subject.root, publisher)?;
            let package = store::package(&request.env, publisher, &subject.name)?;
            if present.is_some() && package.is_some_and(|package| package.listed() > 0) {
                let text = format!(
                    "project {} has versions of the name: transfer the name, or unpublish them first",
                    publisher.id
                );
                return Err(same_text(StatusCode::CONFLICT, text));
            }
        }
        known.release();
        Ok(true)
    })?;
    Ok(Response::no_content())
}

/// Changes a name that a project holds; 404 for another one.
fn change(
    request: &RegistryRequest,
    subject: &Subject,
    event: &NameEvent,
    mut change: impl FnMut(&mut NameOwner) -> Result<bool, Error>,
) -> Result<NameOwner, Error> {
    ownership::change(&request.env, &subject.root, &subject.name, event, |known| match known.owner {
        Some(_) => change(known),
        None => Err(not_found()),
    })
}

fn subject(request: &RegistryRequest, name: &str) -> Result<Subject, Error> {
    let name = PackageName::parse(name);
    let root = root(request, name.as_ref().and_then(PackageName::scope))?;
    Ok(Subject { root, name: name.ok_or_else(not_found)? })
}

/// The top-level namespace of a request. The caller must be able to read the request's project or group; at instance
/// level, the namespace with this path.
pub fn root(request: &RegistryRequest, path: Option<&str>) -> Result<Namespace, Error> {
    let env = &request.env;
    if !ownership::has_owners(env) {
        return Err(same_text(StatusCode::NOT_FOUND, "names have no owners here: registry_name_policy is shared"));
    }
    match &request.level {
        Level::Project(_) => Ok(access::readable_project(request)?.root_namespace().clone()),
        Level::Group(id) => Ok(access::readable_group(request, id)?.root().clone()),
        Level::Instance => {
            let id = path.map(|path| namespace::child(env, None, path)).transpose()?.flatten();
            access::readable_group(request, &id.unwrap_or_default().to_string())
        }
    }
}

fn not_found() -> Error {
    Error::pair(StatusCode::NOT_FOUND, "404 Package Name Not Found", "Package name not found")
}

/// Reads a body of JSON, and authenticates the caller again. 401 and 403 come before the body is read.
pub async fn with_body(mut request: RegistryRequest) -> Result<(RegistryRequest, Map<String, Value>), Error> {
    require_user(&request.caller)?;
    let body = std::mem::take(&mut request.http.body).collect(MAX_BODY).await?;
    let request = access::renew(request)?;
    match serde_json::from_slice(&body) {
        Ok(Value::Object(members)) => Ok((request, members)),
        _ if body.is_empty() => Ok((request, Map::new())),
        _ => Err(Error::validation("the body must be a JSON object")),
    }
}

/// 401 for an anonymous caller, and 403 for deploy and job tokens: a person decides whose a name is.
pub fn require_user(caller: &Caller) -> Result<(), Error> {
    caller.require_authenticated()?;
    if matches!(caller, Caller::User(_)) { Ok(()) } else { Err(Error::forbidden()) }
}

/// The project in the body, by id or path. It must be below the namespace, and the caller must be able to read it.
pub fn project(request: &RegistryRequest, root: &Namespace, body: &Map<String, Value>) -> Result<ProjectKey, Error> {
    let text = match body.get("project_id") {
        Some(Value::Number(id)) => id.to_string(),
        Some(Value::String(path)) => path.clone(),
        None => return Err(Error::validation("project_id is missing")),
        Some(_) => return Err(Error::validation("project_id is invalid")),
    };
    if let ProjectLookup::Found(found) = record_cache::find_project(&request.env, &text)?
        && found.root_namespace().id == root.id
        && is_visible(request, &found)?
    {
        return Ok(found.key());
    }
    Err(Error::validation(format!("project_id is no project of {} that you can see", root.path)))
}

fn is_visible(request: &RegistryRequest, project: &Project) -> Result<bool, Error> {
    Ok(directory::access::may_read_project(&request.env, &request.caller, project)?)
}

pub fn role_in_root(request: &RegistryRequest, root: &Namespace) -> Result<Role, Error> {
    Ok(directory::access::namespace_role(&request.env, &request.caller, root)?)
}

/// The caller's role in the owner of a name, or in the namespace, whichever is higher.
fn role(request: &RegistryRequest, root: &Namespace, known: &NameOwner) -> Result<Role, Error> {
    let owner = owner(&request.env, root, known)?;
    let of_owner = owner.map(|owner| directory::access::project_role(&request.env, &request.caller, &owner));
    Ok(of_owner.transpose()?.unwrap_or(Role::None).max(role_in_root(request, root)?))
}

/// Refuses a caller who is no Maintainer of the owner or of the namespace. Only the namespace decides about a project
/// that had the name before names had owners.
fn require_maintainer(
    request: &RegistryRequest,
    root: &Namespace,
    known: &NameOwner,
    project: u64,
) -> Result<(), Error> {
    let is_unconfirmed = known.further.iter().any(|further| further.unconfirmed && further.project.0.id == project);
    let role = if is_unconfirmed { role_in_root(request, root)? } else { role(request, root, known)? };
    require(role, Role::Maintainer)
}

fn owner(env: &Env, root: &Namespace, known: &NameOwner) -> Result<Option<Rc<Project>>, Error> {
    let present = known.owner.as_ref().map(|owner| ownership::present(env, root, &owner.0));
    Ok(present.transpose()?.flatten())
}

pub fn require(role: Role, least: Role) -> Result<(), Error> {
    if role >= least { Ok(()) } else { Err(Error::forbidden()) }
}

fn render(request: &RegistryRequest, subject: &Subject, known: &NameOwner) -> Result<Value, Error> {
    let Subject { root, name } = subject;
    let present = owner(&request.env, root, known)?;
    let state = match (&known.owner, &present) {
        (None, _) => "released",
        (Some(_), None) => "kept",
        (Some(_), Some(_)) => "owned",
    };
    let owner = match &present {
        Some(owner) if is_visible(request, owner)? => {
            json!({"id": owner.id, "path_with_namespace": owner.full_path()})
        }
        _ => Value::Null,
    };
    let mut projects = Vec::new();
    for FurtherProject { project, unconfirmed } in &known.further {
        let Some(project) = ownership::present(&request.env, root, &project.0)? else { continue };
        if is_visible(request, &project)? {
            let path = project.full_path();
            projects.push(json!({"id": project.id, "path_with_namespace": path, "confirmed": !unconfirmed}));
        }
    }
    let mut answer = Map::new();
    answer.insert("name".into(), name.as_str().into());
    answer.insert("namespace".into(), json!({"id": root.id, "full_path": root.full_path()}));
    answer.insert("state".into(), state.into());
    answer.insert("owner".into(), owner);
    answer.insert("projects".into(), projects.into());
    if role(request, root, known)? >= Role::Maintainer {
        answer.insert("events".into(), known.events.iter().map(render_event).collect());
    }
    Ok(answer.into())
}

fn render_event(event: &NameEvent) -> Value {
    json!({
        "action": event.action,
        "created_at": event.at.to_iso(),
        "user_id": event.by,
        "project_id": event.project.as_ref().map(|project| project.0.id),
    })
}
