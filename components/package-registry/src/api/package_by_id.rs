//! One version by its numeric id, in the reference service's form for every kind of registry. A version has one file,
//! which has the id of the version.

use super::access::{self, Unpublish};
use super::error::package_not_found;
use super::list::{MAX_BYTES, MAX_PACKAGES};
use super::package_row::PackageRow;
use super::request::RegistryRequest;
use super::unpublish;
use crate::manifest;
use crate::package_list::{DEFAULT, DEPRECATED, parse_id};
use crate::store::{self, IdentifiedVersion};
use directory::project::Project;
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response};
use serde_json::{Value, json};
use std::rc::Rc;

/// The orders of the files of a version.
const FILE_ORDERS: [&str; 3] = ["id", "created_at", "file_name"];

/// `GET /projects/:id/packages/:package_id`.
pub fn show(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    let (project, found) = find(request, id)?;
    let record = store::record(&request.env, &found.run, &found.version)?;
    let is_deprecated = manifest::is_deprecated(&String::from_utf8_lossy(&record));
    let row = PackageRow {
        project: &project,
        name: &found.name,
        package: &found.package,
        version: &found.version,
        upload: &found.upload,
        published: found.published,
        status: if is_deprecated { DEPRECATED } else { DEFAULT },
    };
    Ok(Response::ok(&row.render(request, true)?))
}

/// `DELETE /projects/:id/packages/:package_id`: unpublishes the version.
pub fn delete(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    delete_if(request, id, |_| Ok(true))
}

/// `DELETE /projects/:id/packages/:package_id/package_files/:file_id`: the same, because a version without its file
/// cannot be installed.
pub fn delete_file(request: &RegistryRequest, id: &str, file: &str) -> Result<Response, Error> {
    delete_if(request, id, |id| Ok(number(file, "package_file_id")? == Some(id)))
}

fn delete_if(
    request: &RegistryRequest,
    id: &str,
    is_named: impl Fn(u64) -> Result<bool, Error>,
) -> Result<Response, Error> {
    request.caller.require_authenticated()?;
    access::refuse_moved(request)?;
    let is_named = number(id, "package_id")?.map(is_named).transpose()?;
    access::maintained_project(request)?;
    let (_, found) = find(request, id)?;
    let authorized = access::authorize::<Unpublish>(request, found.name.as_str(), package_not_found)?;
    if is_named != Some(true) {
        return Err(package_not_found());
    }
    unpublish::version(&request.env, &authorized, &found.version)?;
    Ok(Response::no_content())
}

/// `GET /projects/:id/packages/:package_id/package_files`, in pages.
pub fn files(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    let params = request.http.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    checks.one_of("order_by", &FILE_ORDERS);
    checks.one_of("sort", &["asc", "desc"]);
    checks.finish()?;
    let (_, found) = find(request, id)?;
    let upload = store::upload(&request.env, &found.upload)?;
    let id = found.package.ids.of(&found.upload);
    let file = json!({
        "id": id,
        "package_id": id,
        "created_at": upload.created.to_iso(),
        "file_name": found.name.file(&found.version),
        "size": upload.size,
        "file_md5": null,
        "file_sha1": upload.integrity.shasum(),
        "file_sha256": null,
        "pipelines": Vec::<Value>::new(),
    });
    let rows: Vec<Value> = [file].into_iter().filter(|_| page.page == 1).collect();
    let given: Vec<(&str, &str)> =
        ["order_by", "sort"].into_iter().filter_map(|name| Some((name, params.text(name)?))).collect();
    Ok(page.describe(Response::ok(&rows), &request.url, &given, 1))
}

/// `GET /projects/:id/packages/:package_id/pipelines`: none are known.
pub fn pipelines(request: &RegistryRequest, id: &str) -> Result<Response, Error> {
    find(request, id)?;
    Ok(Response::ok(&Vec::<Value>::new()))
}

fn number(text: &str, name: &str) -> Result<Option<u64>, Error> {
    parse_id(text).map_err(|_| Error::validation(format!("{name} is invalid")))
}

/// The version with an id in the request's project, in which the caller may read packages. Reads: the index of ids. If
/// it has no such version: the project's packages, and the version indexes of packages of earlier builds.
fn find(request: &RegistryRequest, id: &str) -> Result<(Rc<Project>, IdentifiedVersion), Error> {
    let env = &request.env;
    access::redirect_moved(request)?;
    let id = number(id, "package_id")?;
    let project = access::readable_project(request)?;
    let id = id.ok_or_else(package_not_found)?;
    if let Some(found) = store::version_with_id(env, &project.key(), id)? {
        return Ok((project, found));
    }
    let mut bytes = 0;
    for name in store::names(env, &project.key())?.into_iter().take(MAX_PACKAGES) {
        let Some(package) = store::package(env, &project.key(), &name)? else { continue };
        bytes += if package.ids.are_indexed { 0 } else { package.stored() };
        if bytes > MAX_BYTES {
            break;
        }
        if let Some(found) = store::unindexed_version_with_id(env, &name, &package, id)? {
            return Ok((project, found));
        }
    }
    Err(package_not_found())
}
