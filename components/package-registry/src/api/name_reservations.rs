//! Reservations of names below a top-level namespace, by pattern.

use super::error::same_text;
use super::name_owners::{project, require, require_user, role_in_root, root, with_body};
use super::request::{RegistryRequest, event};
use crate::name_owner::{
    MAX_RESERVATIONS, NameAction, NameEvent, Reservation, Reservations, StoredProject, is_pattern,
};
use crate::store::{self, RootKey};
use directory::access::Role;
use directory::namespace::Namespace;
use http::StatusCode;
use kit::root::Decision;
use kit::{Error, Response};
use serde_json::{Value, json};

/// `GET <prefix>/-/package_name_reservations`. For Maintainers of the namespace.
pub fn list(request: &RegistryRequest) -> Result<Response, Error> {
    require_user(&request.caller)?;
    let root = root(request, None)?;
    require(role_in_root(request, &root)?, Role::Maintainer)?;
    let reservations = store::reservations(&request.env, &RootKey::from(&root))?;
    Ok(Response::ok(&reservations.patterns.iter().map(render).collect::<Vec<_>>()))
}

/// `POST <prefix>/-/package_name_reservations`. For Owners of the namespace.
pub async fn reserve(request: RegistryRequest) -> Result<Response, Error> {
    let (request, body) = with_body(request).await?;
    let root = root(&request, None)?;
    require(role_in_root(&request, &root)?, Role::Owner)?;
    let pattern = body.get("package_name_pattern").and_then(Value::as_str).unwrap_or_default();
    if !is_pattern(pattern) {
        let text = "package_name_pattern must have characters of names, at most 255 of them, and at most 8 wildcards *";
        return Err(Error::validation(text));
    }
    let project = project(&request, &root, &body)?;
    let mut event = event(&request.env, Some(&request.caller), NameAction::Reserved, Some(&project));
    event.pattern = Some(pattern.to_owned());
    let (pattern, project) = (pattern.to_owned(), StoredProject(project));
    let reservation = Reservation { id: event.id.clone(), pattern, project, at: event.at, by: event.by };
    change(&request, &root, &event, |reservations| {
        if reservations.patterns.len() >= MAX_RESERVATIONS {
            let text = format!("the namespace has {MAX_RESERVATIONS} reservations, which is the most that it can have");
            return Err(Error::validation(text));
        }
        reservations.patterns.push(reservation.clone());
        Ok(())
    })?;
    let mut response = Response::ok(&render(&reservation));
    response.status = StatusCode::CREATED;
    Ok(response)
}

/// `DELETE <prefix>/-/package_name_reservations/:id`. For Owners of the namespace.
pub fn remove(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    require_user(&request.caller)?;
    let root = root(request, None)?;
    require(role_in_root(request, &root)?, Role::Owner)?;
    let event = event(&request.env, Some(&request.caller), NameAction::Unreserved, None);
    change(request, &root, &event, |reservations| {
        let before = reservations.patterns.len();
        reservations.patterns.retain(|known| known.id != id);
        match reservations.patterns.len() < before {
            true => Ok(()),
            false => Err(same_text(StatusCode::NOT_FOUND, "404 Reservation Not Found")),
        }
    })?;
    Ok(Response::no_content())
}

fn change(
    request: &RegistryRequest,
    root: &Namespace,
    event: &NameEvent,
    mut change: impl FnMut(&mut Reservations) -> Result<(), Error>,
) -> Result<(), Error> {
    store::update_reservations(&request.env, &RootKey::from(root), |mut reservations| {
        // An earlier attempt was stored, but its reply was lost.
        if reservations.has_applied(&event.id) {
            return Ok(Decision::Keep(()));
        }
        change(&mut reservations)?;
        reservations.record(event.clone());
        Ok(Decision::Replace(reservations, ()))
    })
}

fn render(known: &Reservation) -> Value {
    json!({
        "id": known.id,
        "package_name_pattern": known.pattern,
        "project_id": known.project.0.id,
        "created_at": known.at.to_iso(),
        "created_by": known.by,
    })
}
