//! A version as the packages API shows it.

use super::access;
use super::request::RegistryRequest;
use crate::name::PackageName;
use crate::package::Package;
use crate::package_list::NPM;
use crate::route;
use crate::store;
use directory::project::Project;
use kit::{Error, Timestamp};
use serde_json::{Map, Value, json};

/// A listed version.
pub struct PackageRow<'a> {
    pub project: &'a Project,
    pub name: &'a PackageName,
    pub package: &'a Package,
    pub version: &'a str,
    pub upload: &'a str,
    pub published: Timestamp,
    /// One of [`crate::package_list::STATUSES`].
    pub status: &'a str,
}

impl PackageRow<'_> {
    /// The row as JSON, with the project if `is_group`. Reads: the upload, the publisher, and the caller's role.
    pub fn render(&self, request: &RegistryRequest, is_group: bool) -> Result<Value, Error> {
        let PackageRow { project, package, .. } = *self;
        let env = &request.env;
        let id = package.ids.of(self.upload);
        let creator = store::upload(env, self.upload)?.publisher.user(env)?;
        let tags = package.dist_tags().into_iter().filter(|(_, version)| *version == self.version);
        let tags: Vec<Value> = tags
            .map(|(tag, _)| {
                // `latest` is computed where it was not set.
                let at = package.tags.get(tag).map(|set| set.at.to_iso());
                json!({"package_id": id, "name": tag, "created_at": at, "updated_at": at, "project_id": project.id})
            })
            .collect();
        let mut links = Map::new();
        if let Some(id) = id.filter(|_| !request.caller.is_anonymous())
            && access::may_unpublish(request, project)?
        {
            let address = env.external_url(&request.http) + &route::package_path(project.id, id);
            links.insert("delete_api_path".into(), address.into());
        }
        let mut row = Map::new();
        row.insert("id".into(), id.into());
        row.insert("name".into(), self.name.as_str().into());
        row.insert("version".into(), self.version.into());
        row.insert("package_type".into(), NPM.into());
        row.insert("status".into(), self.status.into());
        row.insert("_links".into(), links.into());
        row.insert("created_at".into(), self.published.to_iso().into());
        row.insert("last_downloaded_at".into(), Value::Null);
        row.insert("creator_id".into(), creator.map(|user| user.id).into());
        if is_group {
            row.insert("project_id".into(), project.id.into());
            row.insert("project_path".into(), project.full_path().into());
        }
        row.insert("tags".into(), tags.into());
        Ok(row.into())
    }
}
