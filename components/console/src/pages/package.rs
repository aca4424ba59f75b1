//! One package: its readme, how to install it, its versions and their dependencies.

use crate::forge::{Answer, ForgeError};
use crate::layout::{self, Column, Content, Section, bytes, code_line, npm_token, number, scope_links, shell_word};
use crate::markdown;
use crate::page_context::{PageContext, PageError};
use crate::pages::home;
use crate::pages::package_actions::{self, PackageRights};
use crate::pages::package_metadata::{Metadata, Release};
use crate::route::{self, Scope};
use http::Method;
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use widgets::chart::{Chart, Form, Quantity, Series};

/// Versions that are listed; all of them with `?versions=all`.
const SHOWN_VERSIONS: usize = 50;

/// Versions that the charts show.
const CHARTED_VERSIONS: usize = 40;

/// Months that the charts show.
const CHARTED_MONTHS: usize = 24;

/// The metadata of a package in a scope.
async fn load(context: &PageContext<'_>, scope: &Scope, name: &str) -> Result<Answer, PageError> {
    let path = format!("{}/{}", route::registry(scope), encode(name));
    Ok(context.forge.send(Method::GET, &path, None).await?)
}

pub async fn show(context: &PageContext<'_>, name: &str) -> Result<Content, PageError> {
    let scope = context.scope().await?;
    let (answer, rights) = futures::join!(load(context, &scope, name), PackageRights::load(context, &scope));
    let (answer, rights) = (answer?, rights?);
    let metadata = Metadata::parse(&answer.body).map_err(|why| ForgeError::Unanswered(why.to_string()))?;
    let release = match context.params.text("version") {
        Some(number) => metadata
            .release(number)
            .ok_or_else(|| PageError::Missing(format!("The package {} has no version {number}.", &*metadata.name)))?,
        None => {
            let latest = metadata.tagged("latest").and_then(|number| metadata.release(number));
            latest.or(metadata.releases.first()).ok_or(PageError::NotFound)?
        }
    };
    let shows_all = context.choice("versions", &["all"])?.is_some();
    let files = match context.choice("files", &["all"])? {
        Some(_) => Some(FileList::load(context, &scope, name, &release.number).await?),
        None => None,
    };
    let Release { number, version, .. } = release;
    let (needed, peers) = (version.dependencies(), version.peer_dependencies());
    // Looking each dependency up would keep the page from being cached. Dependencies in the package's own scope are
    // most likely here.
    let npm_scope = metadata.name.split_once('/').map(|(npm_scope, _)| npm_scope);
    let is_own = |name: &str| npm_scope.is_some() && name.split_once('/').map(|(npm_scope, _)| npm_scope) == npm_scope;
    let link = |name: &str| is_own(name).then(|| context.link(route::package(name, &scope)));
    let base = version.repository().and_then(|url| markdown::repository_base(&url, version.directory().as_deref()));
    let body = html! {
        (scope_links(context.visitor, &scope, Section::Packages))
        div.head {
            h1 { bdi { (metadata.name) } " " span.badge { (number) } }
            @if let Some(description) = &metadata.description { p.lead { bdi { (description) } } }
            @if let Some(reason) = version.deprecation() { p { span.badge.bad { "deprecated" } " " bdi { (reason) } } }
        }
        div.columns {
            div {
                @if let Some(files) = &files {
                    (files.show())
                } @else {
                    section.card aria-label="Readme" {
                        @match metadata.readme.as_deref().filter(|readme| !readme.trim().is_empty()) {
                            Some(readme) => (markdown::show(readme, base.as_deref(), &markdown::Budget::default())),
                            None => p.soft { "This package has no readme. A file README.md in the package shows up here." },
                        }
                    }
                }
                (versions(context, &scope, &metadata, shows_all))
                (charts(&metadata))
                @if let Some(project) = &rights.project { (package_actions::forms(context, &metadata, &rights, project)) }
            }
            aside {
                (install(context, &scope, &metadata.name))
                (facts(&metadata, release, &page_of(context, &scope, &metadata, &format!("files=all&version={}", encode(number)))))
                (dependencies("Dependencies", &needed, link))
                (dependencies("Peer dependencies", &peers, link))
            }
        }
    };
    Ok(Content::new(&*metadata.name, Section::Packages, body))
}

fn install(context: &PageContext<'_>, scope: &Scope, name: &str) -> Markup {
    let registry = route::registry_url(context.base, scope);
    let npm_scope = name.split_once('/').map(|(npm_scope, _)| npm_scope).filter(|npm_scope| npm_scope.starts_with('@'));
    let bare_scope = npm_scope.map(|npm_scope| npm_scope.trim_start_matches('@'));
    let key = npm_scope.map_or_else(|| "registry".to_owned(), |npm_scope| format!("{npm_scope}:registry"));
    let npmrc = vec![format!("npm config set --location project {}", shell_word(&format!("{key}={registry}")))];
    let npm_token = vec![layout::npm_token(&registry)];
    let yarn_key = |key: &str| match bare_scope {
        Some(scope) if scope.contains('.') => format!("npmScopes[\"{scope}\"].{key}"),
        Some(scope) => format!("npmScopes.{scope}.{key}"),
        None => key.to_owned(),
    };
    let set = |key: &str, value: &str| format!("yarn config set {} {}", shell_word(&yarn_key(key)), shell_word(value));
    let mut yarn = vec![set("npmRegistryServer", &registry)];
    if registry.starts_with("http:") {
        let hosts = json!([kit::url::host(&registry)]).to_string();
        yarn.push(format!("yarn config set unsafeHttpWhitelist --json {}", shell_word(&hosts)));
    }
    let yarn_token = vec![set("npmAuthToken", "${NPM_TOKEN}"), set("npmAlwaysAuth", "true")];
    let bunfig = |registry: &str| match npm_scope {
        Some(npm_scope) => vec![format!("[install.scopes]\n\"{npm_scope}\" = {registry}")],
        None => vec![format!("[install]\nregistry = {registry}")],
    };
    let bun = bunfig(&format!("\"{registry}\""));
    let bun_token = bunfig(&format!("{{ url = \"{registry}\", token = \"$NPM_TOKEN\" }}"));
    let name = shell_word(name);
    let tools = [
        ("npm", format!("npm install {name}"), npmrc.clone(), npm_token.clone()),
        ("pnpm", format!("pnpm add {name}"), npmrc, npm_token),
        ("yarn", format!("yarn add {name}"), yarn, yarn_token),
        ("bun", format!("bun add {name}"), bun, bun_token),
    ];
    html! {
        section.card aria-label="Install" {
            h2 { "Install" }
            @for (index, (tool, command, configuration, token)) in tools.iter().enumerate() {
                details.tool name="tool" open[index == 0] {
                    summary { (tool) }
                    p.hint {
                        @if *tool == "bun" {
                            "The registry, in bunfig.toml:"
                        } @else {
                            "The registry, once for each project:"
                        }
                    }
                    @for line in configuration { (code_line(line)) }
                    // A visitor without a token sees only packages that need no token.
                    @if context.visitor.is_signed_in {
                        p.hint {
                            @if *tool == "bun" { "In its place, if" } @else { "If" }
                            " the package is not public, with a token of the scope " code { "read_api" }
                            " in the environment variable " code { "NPM_TOKEN" } ":"
                        }
                        @for line in token { (code_line(line)) }
                    }
                    p.hint { "Then:" }
                    (code_line(command))
                }
            }
        }
    }
}

/// The files in the tarball of a version.
#[derive(Deserialize)]
struct FileList {
    files: Vec<PackedFile>,
    /// Whether the tarball has more files.
    truncated: bool,
}

#[derive(Deserialize)]
struct PackedFile {
    path: String,
    /// Bytes.
    size: u64,
}

impl FileList {
    async fn load(context: &PageContext<'_>, scope: &Scope, name: &str, number: &str) -> Result<Self, PageError> {
        let path = format!("{}/-/package/{}/files/{}", route::registry(scope), encode(name), encode(number));
        let answer = context.forge.send(Method::GET, &path, None).await?;
        let list = serde_json::from_str(&answer.body);
        Ok(list.map_err(|why| ForgeError::Unanswered(why.to_string()))?)
    }

    fn show(&self) -> Markup {
        html! {
            section.card aria-label="Files" {
                h2 { "Files " span.badge { (self.files.len()) } }
                (layout::table("Table of files", &[Column::text("File"), Column::numbers("Size")], html! {
                    @for PackedFile { path, size } in &self.files {
                        tr { td { (layout::code(path)) } td.number { (bytes(*size)) } }
                    }
                }))
                @if self.truncated { p.soft { "The tarball has more files than this list." } }
            }
        }
    }
}

/// The address of this page with other parameters.
fn page_of(context: &PageContext<'_>, scope: &Scope, metadata: &Metadata, parameters: &str) -> String {
    let page = context.link(route::package(&metadata.name, scope));
    let join = if page.contains('?') { '&' } else { '?' };
    format!("{page}{join}{parameters}")
}

fn facts(metadata: &Metadata, release: &Release, files: &str) -> Markup {
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
                    dt { "Size" } dd { (bytes(size)) }
                    dt { "Files" }
                    dd { a href=(files) { @if let Some(files) = version.dist.files { (number(files)) } @else { "list" } } }
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

fn dependencies(title: &str, dependencies: &BTreeMap<String, Value>, link: impl Fn(&str) -> Option<String>) -> Markup {
    html! {
        @if !dependencies.is_empty() {
            section.card aria-label=(title) {
                h2 { (title) " " span.badge { (dependencies.len()) } }
                dl {
                    @for (name, range) in dependencies {
                        dt {
                            @match link(name) {
                                Some(link) => a href=(link) { bdi { (name) } },
                                None => bdi { (name) },
                            }
                        }
                        dd { code { (range.as_str().unwrap_or_default()) } }
                    }
                }
            }
        }
    }
}

fn versions(context: &PageContext<'_>, scope: &Scope, metadata: &Metadata, shows_all: bool) -> Markup {
    let page = context.link(route::package(&metadata.name, scope));
    let join = if page.contains('?') { '&' } else { '?' };
    let releases = &metadata.releases;
    let shown = if shows_all { releases.len() } else { SHOWN_VERSIONS };
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

pub async fn show_list(context: &PageContext<'_>) -> Result<Content, PageError> {
    let scope = context.scope().await?;
    let found = home::search(context, &scope).await?;
    let link = route::package_list(&scope);
    let title = scope.parameter().map_or_else(|| "Packages".to_owned(), |(_, path)| format!("Packages of {path}"));
    let body = html! {
        (scope_links(context.visitor, &scope, Section::Packages))
        div.head { h1 { bdi { (title) } } }
        (home::form(context, &route::package_list(&Scope::Instance), &scope))
        p {}
        (home::results(context, &scope, &found, &link))
        @if let Scope::Project(path) = &scope {
            details.card {
                summary { "Publish to this project" }
                (publishing(context, path))
            }
        }
    };
    Ok(Content::new(title, Section::Packages, body))
}

/// The commands that publish a package to a project only.
pub fn publishing(context: &PageContext<'_>, project: &str) -> Markup {
    let registry = route::registry_url(context.base, &Scope::Project(project.to_owned()));
    let npm_scope = project.split('/').next().unwrap_or_default().to_lowercase();
    let scope_registry = format!("@{npm_scope}:registry={registry}");
    html! {
        p {
            "In the package's folder, with a token of the scope " code { "api" } " in the environment variable "
            code { "NPM_TOKEN" } ". For a package of another scope than " code { "@" (npm_scope) }
            ", put that scope into the second line: a client prefers the registry of a scope."
        }
        (code_line(&format!("npm pkg set publishConfig.registry={registry}")))
        (code_line(&format!("npm config set --location project {}", shell_word(&scope_registry))))
        (code_line(&npm_token(&registry)))
        (code_line(&format!("npm publish --registry={registry}")))
    }
}
