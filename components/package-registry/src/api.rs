//! Answers requests: loads, decides, saves and responds. Only this module knows HTTP statuses.

mod access;
mod account;
mod attestation;
mod audit;
mod caching;
mod deprecate;
mod download;
mod error;
mod file_list;
mod forward;
mod latest;
mod limits;
mod list;
mod maintainers;
mod maintenance;
mod metadata;
mod name_owners;
mod name_reservations;
mod noop_update;
mod organization;
mod owners;
mod package_by_id;
mod package_row;
mod protection_rules;
mod publish;
mod publish_above_project;
mod rate_limit;
mod refusals;
mod request;
mod scope;
mod search;
mod stars;
mod tag;
mod unpublish;
mod update;
mod user;
mod visibility;

use crate::route::{self, Endpoint, Route};
use directory::caller::{self, AcceptedTokens, BOOTSTRAP_ADMIN_TOKEN, INVALID_TOKENS};
use directory::record_cache;
use directory::request_limits::PUBLISHES;
use directory::token::LAST_USE_MINUTES;
use kit::env::EXTERNAL_URL;
use kit::{Env, Error, Request, Response};
use request::RegistryRequest;
use serde_json::json;

/// The variables that this component reads.
pub const VARIABLES: &[&str] = &[
    BOOTSTRAP_ADMIN_TOKEN,
    EXTERNAL_URL,
    INVALID_TOKENS,
    LAST_USE_MINUTES,
    forward::FORWARD_DENY,
    forward::FORWARD_URL,
    limits::MAX_DOCUMENT,
    limits::MAX_ENTRIES,
    limits::MAX_FILE,
    limits::MAX_METADATA,
    limits::MAX_UNPACKED,
    publish::MANIFEST_MISMATCH,
    audit::AUDIT,
    access::ownership::NAME_MIGRATION,
    access::ownership::NAME_POLICY,
    rate_limit::AUTHENTICATED,
    rate_limit::UNAUTHENTICATED,
    rate_limit::LOOKUPS,
    rate_limit::SEARCHES,
    PUBLISHES.variable,
];

/// Answers a request.
pub async fn handle(env: Env, http: Request) -> Response {
    if let Some(task) = route::task(&http.method, &http.path) {
        let answer = match task {
            Ok(task) => maintenance::run(env, http, task).await,
            Err(error) => Err(error),
        };
        return answer.unwrap_or_else(Response::from);
    }
    let response = match route::route(&http.method, &http.path) {
        Ok(route) => answer(env, http, route).await,
        Err(error) => Err(error),
    };
    response.unwrap_or_else(|error| error.paired().into())
}

async fn answer(env: Env, http: Request, route: Route) -> Result<Response, Error> {
    let env = record_cache::attach(&env)?;
    if let Endpoint::Login { name } = &route.endpoint {
        return account::log_in(&env, http, &route, name).await;
    }
    let caller = caller::authenticate(&env, &http, AcceptedTokens::Registry)?;
    rate_limit::check(&env, &http, &caller, &route)?;
    access::check_scope(&caller, &route.endpoint, &http.method)?;
    let url = env.external_url(&http) + &route.prefix;
    let request = RegistryRequest { env, caller, http, level: route.level, url };
    match route.endpoint {
        Endpoint::Metadata { name } => metadata::package(&request, &name),
        Endpoint::Version { name, version } => metadata::version(&request, &name, &version),
        Endpoint::Publish { name } => publish::put(request, &name).await,
        Endpoint::Download { name, file } => download::file(&request, &name, &file),
        Endpoint::Unpublish { name, revision } => unpublish::versions(request, &name, &revision).await,
        Endpoint::UnpublishAll { name, revision } => unpublish::package(&request, &name, &revision),
        Endpoint::RemoveFile { name, file } => unpublish::file(&request, &name, &file),
        Endpoint::ListTags { name } => tag::list(&request, &name),
        Endpoint::SetTag { name, tag } => tag::set(request, &name, &tag).await,
        Endpoint::RemoveTag { name, tag } => tag::remove(&request, &name, &tag),
        Endpoint::Attestations { name, version } => attestation::list(&request, &name, &version),
        Endpoint::Ping => Ok(Response::ok(&json!({}))),
        Endpoint::WhoAmI => user::who_am_i(&request),
        Endpoint::User { name } => user::find(&request, &name),
        // Logins are answered above, before authentication.
        Endpoint::Login { .. } => Err(Error::route_not_found()),
        Endpoint::Profile => account::profile(&request),
        Endpoint::Search => search::search(&request),
        Endpoint::Audit(audit) => audit::report(request, audit).await,
        Endpoint::PublishAboveProject { name } => publish_above_project::put(request, &name).await,
        Endpoint::Visibility { name } => visibility::get(&request, &name),
        Endpoint::AccessStatus { name } => visibility::access_status(&request, &name),
        Endpoint::Owners { name } => owners::list(&request, &name),
        Endpoint::Collaborators { name } => organization::collaborators(&request, &name),
        Endpoint::GroupPackages { group } => organization::packages(request, &group),
        Endpoint::GroupUsers { group } => organization::users(&request, &group),
        Endpoint::GroupTeams { group } => organization::teams(&request, &group),
        Endpoint::Files { name, version } => file_list::list(&request, &name, &version),
        Endpoint::Hooks => organization::hooks(&request),
        Endpoint::Absent(missing) => Err(refusals::absent(missing)),
        Endpoint::Unchangeable(missing) => Err(refusals::unchanged(&request, missing)),
        Endpoint::Stars => Ok(stars::list()),
        Endpoint::List => list::packages(&request),
        Endpoint::Package { id } => package_by_id::show(&request, &id),
        Endpoint::RemovePackage { id } => package_by_id::delete(&request, &id),
        Endpoint::PackageFiles { id } => package_by_id::files(&request, &id),
        Endpoint::RemovePackageFile { id, file } => package_by_id::delete_file(&request, &id, &file),
        Endpoint::Pipelines { id } => package_by_id::pipelines(&request, &id),
        Endpoint::ProtectionRules => protection_rules::list(&request),
        Endpoint::AddProtectionRule => protection_rules::add(request).await,
        Endpoint::ChangeProtectionRule { id } => protection_rules::change(request, &id).await,
        Endpoint::RemoveProtectionRule { id } => protection_rules::remove(&request, &id),
        Endpoint::NameOwner { name } => name_owners::show(&request, &name),
        Endpoint::TransferName { name } => name_owners::transfer(request, &name).await,
        Endpoint::ReleaseName { name } => name_owners::release(&request, &name),
        Endpoint::AllowProject { name } => name_owners::allow(request, &name).await,
        Endpoint::DisallowProject { name, project } => name_owners::disallow(&request, &name, &project),
        Endpoint::Reservations => name_reservations::list(&request),
        Endpoint::Reserve => name_reservations::reserve(request).await,
        Endpoint::Unreserve { id } => name_reservations::remove(&request, &id),
    }
}

#[cfg(test)]
mod tests;
