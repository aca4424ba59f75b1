//! Actions on a package for permitted users: tag, deprecate and unpublish its versions.

use super::package_metadata::Metadata;
use crate::layout::form_token;
use crate::page_context::{self, Alert, DEVELOPER, MAINTAINER, PageContext, PageError};
use crate::route::{self, Scope};
use http::Method;
use kit::params::Params;
use kit::path::encode;
use maud::{Markup, html};
use serde_json::{Value, json};

/// The visitor's rights to the packages of a project.
#[derive(Default)]
pub struct PackageRights {
    /// The project's full path.
    pub project: Option<String>,
    pub can_tag: bool,
    /// Deprecate and unpublish versions, and remove tags.
    pub can_maintain: bool,
}

impl PackageRights {
    /// The rights are empty outside a project, and without a user.
    pub async fn load(context: &PageContext<'_>, scope: &Scope) -> Result<Self, PageError> {
        let Scope::Project(id) = scope else { return Ok(PackageRights::default()) };
        let Some(access) = page_context::load_access_level(context, id).await? else {
            return Ok(PackageRights::default());
        };
        Ok(PackageRights {
            project: Some(access.path),
            can_tag: access.level >= DEVELOPER,
            can_maintain: access.level >= MAINTAINER,
        })
    }
}

/// The forms that the visitor may use.
pub fn forms(context: &PageContext<'_>, metadata: &Metadata, rights: &PackageRights, project: &str) -> Markup {
    let action = context.link(route::package(&metadata.name, &Scope::Project(project.to_owned())));
    let versions =
        || html! { @for release in &metadata.releases { option value=(release.number) { (release.number) } } };
    let token = form_token(context.visitor);
    html! {
        @if rights.can_tag {
            section.card #manage aria-label="Manage" {
                h2 { "Manage" }
                form method="post" action=(action) {
                    (token)
                    h3 { "Tag a version" }
                    div.actions {
                        label { "Tag" input name="tag" required maxlength="100" placeholder="beta"; }
                        label { "Version" select name="version" { (versions()) } }
                        button name="action" value="tag" { "Set tag" }
                    }
                }
                @if rights.can_maintain {
                    @if metadata.tags.len() > 1 {
                        form method="post" action=(action) {
                            (token)
                            h3 { "Remove a tag" }
                            div.actions {
                                label {
                                    "Tag" select name="tag" {
                                        @for (tag, _) in metadata.tags.iter().filter(|(tag, _)| **tag != *"latest") {
                                            option value=(tag) { (tag) }
                                        }
                                    }
                                }
                                button.quiet name="action" value="untag" { "Remove tag" }
                            }
                        }
                    }
                    form method="post" action=(action) {
                        (token)
                        h3 { "Deprecate a version" }
                        div.actions {
                            label { "Version" select name="version" { (versions()) } }
                            label {
                                "Message (none: not deprecated)" input name="message" maxlength="1000" placeholder="Use 2.x instead";
                            }
                            button.quiet name="action" value="deprecate" { "Deprecate" }
                        }
                    }
                    form method="post" action=(action) data-confirm="Unpublish this version? Its number cannot be used again." {
                        (token)
                        h3 { "Unpublish a version" }
                        p.hint {
                            "Whoever depends on it cannot install it any more, and its number cannot be used again."
                        }
                        div.actions {
                            label { "Version" select name="version" { (versions()) } }
                            label {
                                "Type the version to confirm" input name="confirmation" required autocomplete="off";
                            }
                            button.danger name="action" value="unpublish" { "Unpublish" }
                        }
                    }
                }
            }
        }
    }
}

pub async fn submit(context: &PageContext<'_>, name: &str, form: &Params) -> Result<Alert, PageError> {
    let scope = Scope::of(context.params.text("project"), context.params.text("group"));
    let registry = route::registry(&scope);
    let name_segment = encode(name);
    let field = |field: &str| {
        let missing = || PageError::Invalid(format!("The field “{field}” is missing."));
        form.text(field).map(str::trim).filter(|value| !value.is_empty()).ok_or_else(missing)
    };
    match form.text("action").unwrap_or_default() {
        "tag" => {
            let (tag, version) = (field("tag")?, field("version")?);
            let path = format!("{registry}/-/package/{name_segment}/dist-tags/{}", encode(tag));
            context.forge.send(Method::PUT, &path, Some(&json!(version))).await?;
            Ok(Alert::success(format!("The tag {tag} is at version {version}.")))
        }
        "untag" => {
            let tag = field("tag")?;
            let path = format!("{registry}/-/package/{name_segment}/dist-tags/{}", encode(tag));
            context.forge.send(Method::DELETE, &path, None).await?;
            Ok(Alert::success(format!("The tag {tag} is removed.")))
        }
        "deprecate" => {
            let version = field("version")?;
            let message = form.text("message").unwrap_or_default();
            let path = format!("{registry}/{name_segment}/{}", encode(version));
            // The registry ignores an unknown version, and also finds a version by a tag.
            let found: Option<Value> = context.forge.find(&path).await?;
            if found.is_none_or(|found| found.get("version").and_then(Value::as_str) != Some(version)) {
                return Err(PageError::Invalid(format!("There is no version {version} any more.")));
            }
            let record = json!({"name": name, "version": version, "deprecated": message});
            let document = json!({"_id": name, "name": name, "versions": {version: record}});
            context.forge.send(Method::PUT, &format!("{registry}/{name_segment}"), Some(&document)).await?;
            Ok(Alert::success(match message {
                "" => format!("Version {version} is not deprecated."),
                _ => format!("Version {version} is deprecated."),
            }))
        }
        "unpublish" => {
            let version = field("version")?;
            if field("confirmation")? != version {
                return Err(PageError::Invalid("To unpublish a version, type its number to confirm.".to_owned()));
            }
            unpublish(context, &scope, name, version).await?;
            Ok(Alert::success(format!("Version {version} is unpublished.")))
        }
        _ => Err(PageError::Invalid("This form asks for something unknown.".to_owned())),
    }
}

/// Sends the document without the version, as package managers do. For the last version, the whole package is
/// unpublished.
async fn unpublish(context: &PageContext<'_>, scope: &Scope, name: &str, version: &str) -> Result<(), PageError> {
    let path = format!("{}/{}", route::registry(scope), encode(name));
    let mut document: Value = context.forge.get(&format!("{path}?write=true")).await?;
    let revision = document.get("_rev").and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = format!("{path}/-rev/{}", encode(&revision));
    let versions = document.get_mut("versions").and_then(Value::as_object_mut);
    let Some(versions) = versions.filter(|versions| versions.contains_key(version)) else {
        return Err(PageError::Invalid(format!("There is no version {version} any more.")));
    };
    versions.remove(version);
    let is_last = versions.is_empty();
    if let Some(tags) = document.get_mut("dist-tags").and_then(Value::as_object_mut) {
        tags.retain(|_, tagged| tagged != version);
    }
    match is_last {
        true => context.forge.send(Method::DELETE, &path, None).await?,
        false => context.forge.send(Method::PUT, &path, Some(&document)).await?,
    };
    Ok(())
}
