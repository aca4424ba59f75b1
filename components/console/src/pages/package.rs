//! One package: its readme, how to install it, its versions and their dependencies.

use super::package_actions::{self, PackageRights};
use super::package_metadata::{Metadata, Version};
use crate::layout::{self, Column, Content, Section, bytes, code_line, number, scope_links};
use crate::markdown;
use crate::route::{self, Scope};
use crate::visit::{PageError, Visit};
use kit::path::encode;
use maud::{Markup, html};
use serde_json::Value;
use std::collections::BTreeMap;
use widgets::chart::{Chart, Form, Quantity, Series};

/// Versions that are listed; all of them with `?versions=all`.
const SHOWN_VERSIONS: usize = 50;

/// Versions that the charts show.
const CHARTED_VERSIONS: usize = 40;

/// The metadata of a package in a scope.
pub async fn load(visit: &Visit<'_>, scope: &Scope, name: &str) -> Result<Metadata, PageError> {
    Ok(visit.forge.get(&format!("{}/{}", route::registry(scope), encode(name))).await?)
}

pub async fn show(visit: &Visit<'_>, name: &str) -> Result<Content, PageError> {
    let scope = visit.scope().await?;
    let (metadata, rights) = futures::join!(load(visit, &scope, name), PackageRights::load(visit, &scope));
    let (metadata, rights) = (metadata?, rights?);
    let shown = visit.params.text("version").and_then(|version| metadata.versions.get_key_value(version));
    let latest = metadata.tags.get("latest").and_then(|latest| metadata.versions.get_key_value(latest));
    let newest = || metadata.versions.iter().max_by_key(|(version, _)| metadata.time.get(*version));
    let Some((number, version)) = shown.or(latest).or_else(newest) else { return Err(PageError::NotFound) };
    let base = version.repository().and_then(|url| markdown::repository_base(url, version.directory()));
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
                        Some(readme) => div.text { (markdown::render(readme, base.as_deref())) },
                        None => p.soft { "This package has no readme. A file README.md in the package shows up here." },
                    }
                }
                (versions(visit, &scope, &metadata))
                (charts(&metadata))
                @if let Some(project) = &rights.project { (package_actions::forms(visit, &metadata, &rights, project)) }
            }
            aside {
                (install(visit, &scope, &metadata.name))
                (facts(&metadata, number, version))
                (dependencies("Dependencies", version.dependencies.as_ref(), &scope))
                (dependencies("Peer dependencies", version.peer_dependencies.as_ref(), &scope))
            }
        }
    };
    Ok(Content::new(metadata.name.clone(), Section::Packages, body))
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

fn facts(metadata: &Metadata, number_text: &str, version: &Version) -> Markup {
    let text = |value: &Option<Value>| match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Object(fields)) => fields.get("type").and_then(Value::as_str).map(str::to_owned),
        _ => None,
    };
    let engines = version.engines.as_ref().and_then(Value::as_object);
    let repository = version.repository().and_then(markdown::web_url);
    let homepage = text(&version.homepage).and_then(|url| markdown::web_url(&url));
    html! {
        section.card aria-label="About" {
            h2 { "About" }
            dl {
                @if let Some(moment) = metadata.time.get(number_text) {
                    dt { "Published" } dd { (layout::time(moment)) }
                }
                @if let Some(publisher) = &version.publisher { dt { "By" } dd { bdi { (publisher.name) } } }
                @if let Some(license) = text(&version.license) { dt { "Licence" } dd { bdi { (license) } } }
                @if let Some(size) = version.dist.unpacked_size {
                    dt { "Size" }
                    dd { (bytes(size)) @if let Some(files) = version.dist.files { ", " (number(files)) " files" } }
                }
                @for (engine, range) in engines.into_iter().flatten() {
                    dt { bdi { (engine) } } dd { bdi { (range.as_str().unwrap_or_default()) } }
                }
                @if let Some(url) = homepage {
                    dt { "Homepage" } dd { a href=(url) rel="nofollow noopener noreferrer" { (url) } }
                }
                @if let Some(url) = repository {
                    dt { "Repository" } dd { a href=(url) rel="nofollow noopener noreferrer" { (url) } }
                }
                @if version.has_install_script { dt { "Scripts" } dd { span.badge.warn { "runs on installation" } } }
                @if version.dist.attestations.is_some() { dt { "Provenance" } dd { span.badge.good { "attested" } } }
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

fn dependencies(title: &str, dependencies: Option<&BTreeMap<String, Value>>, scope: &Scope) -> Markup {
    html! {
        @if let Some(dependencies) = dependencies.filter(|dependencies| !dependencies.is_empty()) {
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

/// The versions by time, the newest first.
fn by_time(metadata: &Metadata) -> Vec<(&String, &Version)> {
    let mut versions: Vec<_> = metadata.versions.iter().collect();
    versions.sort_by(|(one, _), (other, _)| metadata.time.get(*other).cmp(&metadata.time.get(*one)));
    versions
}

fn versions(visit: &Visit<'_>, scope: &Scope, metadata: &Metadata) -> Markup {
    let shows_all = visit.params.text("versions") == Some("all");
    let link = |extra: &str| {
        let page = route::package(&metadata.name, scope);
        let join = if page.contains('?') { '&' } else { '?' };
        format!("{page}{join}{extra}")
    };
    let versions = by_time(metadata);
    let shown = if shows_all { versions.len() } else { SHOWN_VERSIONS };
    html! {
        section.card #versions aria-label="Versions" {
            h2 { "Versions " span.badge { (versions.len()) } }
            (layout::table("Table of versions", &[Column::text("Version"), Column::text("Published"), Column::numbers("Size"), Column::text("By")], html! {
                @for (number, version) in versions.iter().take(shown) {
                    tr {
                        td {
                            a href=(link(&format!("version={}", encode(number)))) { (number) } " "
                            @for (tag, _) in metadata.tags.iter().filter(|(_, tagged)| tagged == number) {
                                span.badge.accent { bdi { (tag) } }
                            }
                            @if version.dist.attestations.is_some() { span.badge.good { "attested" } }
                            @if let Some(reason) = version.deprecation() {
                                span.badge.bad title=(reason) { "deprecated" }
                            }
                        }
                        td { @if let Some(moment) = metadata.time.get(*number) { (layout::time(moment)) } }
                        td.number { @if let Some(size) = version.dist.unpacked_size { (bytes(size)) } }
                        td { @if let Some(publisher) = &version.publisher { bdi { (publisher.name) } } }
                    }
                }
            }))
            @if versions.len() > shown {
                p { a href=(format!("{}#versions", link("versions=all"))) { "Show all " (versions.len()) " versions" } }
            }
        }
    }
}

fn charts(metadata: &Metadata) -> Markup {
    let mut versions: Vec<_> = by_time(metadata).into_iter().take(CHARTED_VERSIONS).collect();
    versions.reverse();
    let labels: Vec<String> = versions.iter().map(|(number, _)| (*number).clone()).collect();
    let sizes = versions.iter().map(|(_, version)| version.dist.unpacked_size.unwrap_or_default() as f64).collect();
    let mut months: BTreeMap<String, f64> = BTreeMap::new();
    for moment in metadata.versions.keys().filter_map(|version| metadata.time.get(version)) {
        *months.entry(moment.get(..7).unwrap_or_default().to_owned()).or_default() += 1.0;
    }
    let (months, publishes): (Vec<String>, Vec<f64>) = months.into_iter().rev().take(24).unzip();
    let (months, publishes): (Vec<_>, Vec<_>) =
        (months.into_iter().rev().collect(), publishes.into_iter().rev().collect());
    let of = |name: &str, values| [Series { name: name.to_owned(), values }];
    html! {
        @if versions.len() > 1 {
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
