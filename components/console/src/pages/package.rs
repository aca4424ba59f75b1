//! One package: its readme, how to install it, its versions and their dependencies.

use super::package_actions::{self, PackageRights};
use super::package_metadata::{Metadata, Release};
use crate::forge::{Answer, ForgeError};
use crate::layout::{self, Column, Content, Section, bytes, code_line, number, scope_links};
use crate::markdown;
use crate::route::{self, Scope};
use crate::visit::{PageError, Visit};
use http::Method;
use kit::path::encode;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;
use widgets::chart::{Chart, Form, Quantity, Series};

/// Versions that are listed; all of them with `?versions=all`.
const SHOWN_VERSIONS: usize = 50;

/// Versions that the charts show.
const CHARTED_VERSIONS: usize = 40;

/// Months that the charts show.
const CHARTED_MONTHS: usize = 24;

/// The metadata of a package in a scope.
async fn load(visit: &Visit<'_>, scope: &Scope, name: &str) -> Result<Answer, PageError> {
    let path = format!("{}/{}", route::registry(scope), encode(name));
    Ok(visit.forge.send(Method::GET, &path, None).await?)
}

pub async fn show(visit: &Visit<'_>, name: &str) -> Result<Content, PageError> {
    let scope = visit.scope().await?;
    let (answer, rights) = futures::join!(load(visit, &scope, name), PackageRights::load(visit, &scope));
    let (answer, rights) = (answer?, rights?);
    let metadata = Metadata::parse(&answer.body).map_err(|why| ForgeError::Unanswered(why.to_string()))?;
    let asked = visit.params.text("version").and_then(|number| metadata.release(number));
    let latest = || metadata.tagged("latest").and_then(|number| metadata.release(number));
    let Some(release) = asked.or_else(latest).or(metadata.releases.first()) else { return Err(PageError::NotFound) };
    let Release { number, version, .. } = release;
    let base = version.repository().and_then(|url| markdown::repository_base(&url, version.directory().as_deref()));
    let body = html! {
        (scope_links(&scope, Section::Packages))
        div.head {
            h1 { bdi { (metadata.name) } " " span.badge { (number) } }
            @if let Some(description) = &metadata.description { p.lead { bdi { (description) } } }
            @if let Some(reason) = version.deprecation() { p { span.badge.bad { "deprecated" } " " bdi { (reason) } } }
        }
        div.columns {
            div {
                section.card aria-label="Readme" {
                    @match metadata.readme.as_deref().filter(|readme| !readme.trim().is_empty()) {
                        Some(readme) => (markdown::show(readme, base.as_deref(), &markdown::Budget::default())),
                        None => p.soft { "This package has no readme. A file README.md in the package shows up here." },
                    }
                }
                (versions(visit, &scope, &metadata))
                (charts(&metadata))
                @if let Some(project) = &rights.project { (package_actions::forms(visit, &metadata, &rights, project)) }
            }
            aside {
                (install(visit, &scope, &metadata.name))
                (facts(&metadata, release))
                (dependencies("Dependencies", &version.dependencies(), &scope))
                (dependencies("Peer dependencies", &version.peer_dependencies(), &scope))
            }
        }
    };
    Ok(Content::new(&*metadata.name, Section::Packages, body))
}

fn install(visit: &Visit<'_>, scope: &Scope, name: &str) -> Markup {
    let registry = route::registry_url(visit.base, scope);
    let npm_scope = name.split_once('/').map(|(npm_scope, _)| npm_scope).filter(|npm_scope| npm_scope.starts_with('@'));
    let npmrc = match npm_scope {
        Some(npm_scope) => format!("npm config set --location project {npm_scope}:registry={registry}"),
        None => format!("npm config set --location project registry={registry}"),
    };
    let yarn = match npm_scope.and_then(|npm_scope| npm_scope.strip_prefix('@')) {
        Some(npm_scope) => format!("yarn config set npmScopes.{npm_scope}.npmRegistryServer {registry}"),
        None => format!("yarn config set npmRegistryServer {registry}"),
    };
    let bunfig = match npm_scope {
        Some(npm_scope) => format!("[install.scopes]\n\"{npm_scope}\" = \"{registry}\""),
        None => format!("[install]\nregistry = \"{registry}\""),
    };
    let tools = [
        ("npm", npmrc.clone(), format!("npm install {name}")),
        ("pnpm", npmrc, format!("pnpm add {name}")),
        ("yarn", yarn, format!("yarn add {name}")),
        ("bun", bunfig, format!("bun add {name}")),
    ];
    html! {
        section.card aria-label="Install" {
            h2 { "Install" }
            @for (index, (tool, configuration, command)) in tools.iter().enumerate() {
                details.tool name="tool" open[index == 0] {
                    summary { (tool) }
                    (code_line(command))
                    p.hint {
                        @if *tool == "bun" {
                            "The registry, in bunfig.toml:"
                        } @else {
                            "The registry, once for each project:"
                        }
                    }
                    (code_line(configuration))
                }
            }
        }
    }
}

fn facts(metadata: &Metadata, release: &Release) -> Markup {
    let Release { time, version, .. } = release;
    let repository = version.repository().and_then(|url| markdown::web_url(&url));
    let homepage = version.homepage().and_then(|url| markdown::web_url(&url));
    html! {
        section.card aria-label="About" {
            h2 { "About" }
            dl {
                @if let Some(moment) = time {
                    dt { "Published" } dd { (layout::time(moment)) }
                }
                @if let Some(publisher) = version.publisher() { dt { "By" } dd { bdi { (publisher.name) } } }
                @if let Some(license) = version.license() { dt { "Licence" } dd { bdi { (license) } } }
                @if let Some(size) = version.dist.unpacked_size {
                    dt { "Size" }
                    dd { (bytes(size)) @if let Some(files) = version.dist.files { ", " (number(files)) " files" } }
                }
                @for (engine, range) in version.engines() {
                    dt { bdi { (engine) } } dd { bdi { (range.as_str().unwrap_or_default()) } }
                }
                @if let Some(url) = homepage {
                    dt { "Homepage" } dd { a href=(url) rel="nofollow noopener noreferrer" { (url) } }
                }
                @if let Some(url) = repository {
                    dt { "Repository" } dd { a href=(url) rel="nofollow noopener noreferrer" { (url) } }
                }
                @if version.has_install_script() { dt { "Scripts" } dd { span.badge.warn { "runs on installation" } } }
                @if version.is_attested() { dt { "Provenance" } dd { span.badge.good { "attested" } } }
                @if let Some(integrity) = &version.dist.integrity { dt { "Integrity" } dd { code { (integrity) } } }
                @if !metadata.maintainers.is_empty() {
                    dt { "Owners" }
                    dd {
                        @for (index, person) in metadata.maintainers.iter().take(10).enumerate() {
                            @if index > 0 { ", " } bdi { (person.name) }
                        }
                    }
                }
            }
        }
    }
}

fn dependencies(title: &str, dependencies: &BTreeMap<String, Value>, scope: &Scope) -> Markup {
    html! {
        @if !dependencies.is_empty() {
            section.card aria-label=(title) {
                h2 { (title) " " span.badge { (dependencies.len()) } }
                dl {
                    @for (name, range) in dependencies {
                        dt { a href=(route::package(name, scope)) { bdi { (name) } } }
                        dd { code { (range.as_str().unwrap_or_default()) } }
                    }
                }
            }
        }
    }
}

fn versions(visit: &Visit<'_>, scope: &Scope, metadata: &Metadata) -> Markup {
    let page = route::package(&metadata.name, scope);
    let join = if page.contains('?') { '&' } else { '?' };
    let releases = &metadata.releases;
    let shown = if visit.params.text("versions") == Some("all") { releases.len() } else { SHOWN_VERSIONS };
    html! {
        section.card #versions aria-label="Versions" {
            h2 { "Versions " span.badge { (releases.len()) } }
            (layout::table("Table of versions", &[Column::text("Version"), Column::text("Published"), Column::numbers("Size"), Column::text("By")], html! {
                @for Release { number, time, version } in releases.iter().take(shown) {
                    tr {
                        td {
                            a href={ (page) (join) "version=" (encode(number)) } { (number) } " "
                            @for (tag, _) in metadata.tags.iter().filter(|(_, tagged)| tagged == number) {
                                span.badge.accent { bdi { (tag) } }
                            }
                            @if version.is_attested() { span.badge.good { "attested" } }
                            @if let Some(reason) = version.deprecation() {
                                span.badge.bad title=(reason) { "deprecated" }
                            }
                        }
                        td { @if let Some(moment) = time { (layout::time(moment)) } }
                        td.number { @if let Some(size) = version.dist.unpacked_size { (bytes(size)) } }
                        td { @if let Some(publisher) = version.publisher() { bdi { (publisher.name) } } }
                    }
                }
            }))
            @if releases.len() > shown {
                p { a href={ (page) (join) "versions=all#versions" } { "Show all " (releases.len()) " versions" } }
            }
        }
    }
}

fn charts(metadata: &Metadata) -> Markup {
    let charted = || metadata.releases.iter().take(CHARTED_VERSIONS).rev();
    let labels: Vec<String> = charted().map(|release| release.number.to_string()).collect();
    let sizes = charted().map(|release| release.version.dist.unpacked_size.unwrap_or_default() as f64).collect();
    let mut months: BTreeMap<&str, f64> = BTreeMap::new();
    for moment in metadata.releases.iter().filter_map(|release| release.time.as_ref()) {
        *months.entry(moment.get(..7).unwrap_or_default()).or_default() += 1.0;
    }
    let recent = || months.iter().skip(months.len().saturating_sub(CHARTED_MONTHS));
    let publishes = recent().map(|(_, publishes)| *publishes).collect();
    let months: Vec<String> = recent().map(|(month, _)| (*month).to_owned()).collect();
    let of = |name: &str, values| [Series { name: name.to_owned(), values }];
    html! {
        @if labels.len() > 1 {
            section.card aria-label="History" {
                h2 { "History" }
                (Chart { title: "Unpacked size", label: "version", unit: "bytes", labels: &labels, series: &of("size", sizes), form: Form::Lines, quantity: Quantity::Bytes }.render())
                @if months.len() > 1 {
                    (Chart { title: "Published versions", label: "month", unit: "versions", labels: &months, series: &of("versions", publishes), form: Form::Bars, quantity: Quantity::Count }.render())
                }
            }
        }
    }
}
