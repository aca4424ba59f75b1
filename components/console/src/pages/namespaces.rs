//! The list of namespaces, and a namespace with its groups, its projects and the fields that the visitor may see.

use crate::forge::{Forge, ForgeError};
use crate::layout::{self, Column, Content, Section, breadcrumb, empty, number, pages, table};
use crate::page_context::{PageContext, PageError};
use crate::pages::package::publishing;
use crate::route::{self, Scope};
use http::{Method, StatusCode};
use kit::path::encode;
use maud::{Markup, html};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

/// Entries of one page of a list.
const PAGE: u64 = 20;

/// Groups and projects that the page of a namespace lists.
const CHILDREN: u64 = 50;

/// Published versions that the page of a project lists.
const VERSIONS: u64 = 10;

#[derive(Deserialize)]
struct Namespace {
    name: String,
    kind: String,
    full_path: String,
    /// Further fields that the visitor may see.
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
struct Project {
    name: String,
    path_with_namespace: String,
    visibility: String,
    #[serde(default)]
    archived: bool,
    default_branch: Option<String>,
    http_url_to_repo: Option<String>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    full_path: String,
    visibility: String,
}

pub async fn list(context: &PageContext<'_>) -> Result<Content, PageError> {
    let search = context.params.text("q").unwrap_or_default();
    let page = context.page()?;
    let path = format!("namespaces?search={}&full_path_search=true&page={page}&per_page={PAGE}", encode(search));
    let answer = context.forge.send(Method::GET, &path, None).await?;
    let namespaces: Vec<Namespace> = answer.json()?;
    context.require_entries(page, namespaces.is_empty())?;
    let has_next = answer.number("x-next-page").is_some();
    let body = html! {
        div.head { h1 { "Namespaces" } p.lead { "Groups and users, with their projects." } }
        form.search action=(context.link(route::NAMESPACES)) role="search" data-live {
            input type="search" name="q" value=(search) placeholder="Search by name or path" aria-label="Search namespaces";
            button { "Search" }
        }
        p {}
        div #results aria-live="polite" {
            @if namespaces.is_empty() {
                (empty("Nothing found", "You see your own namespace and your groups here; administrators see all."))
            }
            @if let Some(total) = answer.number("x-total") { p.soft { (number(total)) " namespaces" } }
            ul.list {
                @for namespace in &namespaces {
                    li {
                        h2 { a href=(context.link(route::namespace(&namespace.full_path))) { bdi { (namespace.name) } } }
                        " " span.badge { (namespace.kind) }
                        div.meta { span { bdi { (namespace.full_path) } } }
                    }
                }
            }
            (pages(page, has_next, |page| context.link(format_args!("{}?q={}&page={page}", route::NAMESPACES, encode(search)))))
        }
    };
    Ok(Content::new("Namespaces", Section::Namespaces, body))
}

/// A namespace, or a project at the same kind of path.
pub async fn show(context: &PageContext<'_>, path: &str) -> Result<Content, PageError> {
    let id = encode(path);
    let namespace: Option<Namespace> = match context.visitor.is_signed_in {
        true => context.forge.find(&format!("namespaces/{id}")).await?,
        // Anonymous visitors read groups and projects, but no namespaces.
        false => None,
    };
    let group: Option<Group> = context.forge.find(&format!("groups/{id}")).await?;
    if namespace.is_none() && group.is_none() && path.contains('/') {
        let project: Option<Project> = context.forge.find(&format!("projects/{id}")).await?;
        let project = project.ok_or(PageError::NotFound)?;
        let published = published(context, &id).await?;
        return Ok(show_project(context, &project, published.as_ref()));
    }
    let (groups, projects) =
        futures::try_join!(children(context, group.is_some(), &id), projects(context, group.is_some(), &id))?;
    // Of another user's namespace, visitors see the projects that they may read.
    let projects = match projects {
        Some(projects) => projects,
        None if namespace.is_none() && group.is_none() => return Err(PageError::NotFound),
        None => Vec::new(),
    };
    let scope = group.as_ref().map(|group| Scope::Group(group.full_path.clone()));
    let name = namespace.as_ref().map(|namespace| &namespace.name).or(group.as_ref().map(|group| &group.name));
    let name = name.map_or(path, String::as_str).to_owned();
    let body = html! {
        @match &scope {
            Some(scope) => (layout::scope_links(context.visitor, scope, Section::Namespaces)),
            None => (breadcrumb(context.visitor, path)),
        }
        div.head { h1 { bdi { (name) } @if let Some(group) = &group { " " span.badge { (group.visibility) } } } }
        div.columns {
            div {
                h2 { "Projects" }
                (project_list(context, &projects))
                @if !groups.is_empty() {
                    p {}
                    h2 { "Groups" }
                    ul.list {
                        @for group in &groups {
                            li {
                                h3 { a href=(context.link(route::namespace(&group.full_path))) { bdi { (group.name) } } }
                                " " span.badge { (group.visibility) }
                            }
                        }
                    }
                }
            }
            aside { @if let Some(namespace) = &namespace { (facts(namespace)) } }
        }
    };
    Ok(Content::new(name, Section::Namespaces, body))
}

/// Whether there is a group, a user or a project of this path that the visitor may see.
pub async fn find(forge: &Forge<'_>, path: &str, is_group: bool) -> Result<bool, ForgeError> {
    let id = encode(path);
    let other = match path.contains('/') {
        true => format!("projects/{id}"),
        false => format!("users/{id}/projects?per_page=1"),
    };
    for place in [Some(format!("groups/{id}")), (!is_group).then_some(other)].into_iter().flatten() {
        if forge.find::<IgnoredAny>(&place).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn children(context: &PageContext<'_>, is_group: bool, id: &str) -> Result<Vec<Group>, PageError> {
    match is_group {
        true => Ok(context.forge.get(&format!("groups/{id}/subgroups?all_available=true&per_page={CHILDREN}")).await?),
        false => Ok(Vec::new()),
    }
}

async fn projects(context: &PageContext<'_>, is_group: bool, id: &str) -> Result<Option<Vec<Project>>, PageError> {
    let owner = if is_group { "groups" } else { "users" };
    Ok(context.forge.find(&format!("{owner}/{id}/projects?per_page={CHILDREN}")).await?)
}

fn project_list(context: &PageContext<'_>, projects: &[Project]) -> Markup {
    html! {
        @if projects.is_empty() { (empty("No projects", "There is none here that you may see.")) }
        ul.list {
            @for project in projects {
                li {
                    h3 { a href=(context.link(route::namespace(&project.path_with_namespace))) { bdi { (project.name) } } }
                    " " span.badge { (project.visibility) }
                    @if project.archived { " " span.badge.warn { "archived" } }
                    div.meta {
                        @let scope = Scope::Project(project.path_with_namespace.clone());
                        a href=(context.link(route::package_list(&scope))) { "Packages" }
                        a href=(context.link(route::issues(&scope))) { "Issues" }
                        a href=(context.link(route::merge_request_list(&scope))) { "Merge requests" }
                        a href=(context.link(route::analytics(&project.path_with_namespace))) { "Analytics" }
                    }
                }
            }
        }
    }
}

/// The versions that were published last, and the number of all versions.
struct Published {
    latest: Vec<PublishedVersion>,
    total: Option<u64>,
}

#[derive(Deserialize)]
struct PublishedVersion {
    name: String,
    version: String,
    status: String,
    created_at: String,
    #[serde(default)]
    tags: Vec<Tag>,
}

#[derive(Deserialize)]
struct Tag {
    name: String,
}

async fn published(context: &PageContext<'_>, project: &str) -> Result<Option<Published>, PageError> {
    let path = format!("projects/{project}/packages?order_by=created_at&sort=desc&per_page={VERSIONS}");
    match context.forge.send(Method::GET, &path, None).await {
        Ok(answer) => Ok(Some(Published { latest: answer.json()?, total: answer.number("x-total") })),
        // A visitor who may see a project may not see its packages, and a list can be too long to be counted.
        Err(error) => match error.status() {
            StatusCode::BAD_REQUEST | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND => Ok(None),
            _ => Err(error.into()),
        },
    }
}

fn published_versions(context: &PageContext<'_>, published: &Published, scope: &Scope) -> Markup {
    let columns = [Column::text("Package"), Column::text("Version"), Column::text("Published")];
    html! {
        section.card aria-label="Published versions" {
            h2 { "Published versions" }
            @if published.latest.is_empty() {
                p.soft { "None yet." }
            } @else {
                (table("Published versions", &columns, html! {
                    @for PublishedVersion { name, version, status, created_at, tags } in &published.latest {
                        tr {
                            th scope="row" { a href=(context.link(route::package(name, scope))) { bdi { (name) } } }
                            td {
                                bdi { (version) } " "
                                @for tag in tags { span.badge { bdi { (tag.name) } } }
                                @if status != "default" { span.badge.warn { (status) } }
                            }
                            td { (layout::time(created_at)) }
                        }
                    }
                }))
                p {
                    a href=(context.link(route::package_list(scope))) { "All packages" }
                    @if let Some(total) = published.total { span.soft { " · " (number(total)) " versions" } }
                }
            }
        }
    }
}

fn show_project(context: &PageContext<'_>, project: &Project, published: Option<&Published>) -> Content {
    let scope = Scope::Project(project.path_with_namespace.clone());
    let body = html! {
        (layout::scope_links(context.visitor, &scope, Section::Namespaces))
        div.head {
            h1 {
                bdi { (project.name) }
                " " span.badge { (project.visibility) }
                @if project.archived { " " span.badge.warn { "archived" } }
            }
        }
        @if let Some(published) = published { (published_versions(context, published, &scope)) }
        div.card {
            h2 { "Clone" }
            @if let Some(url) = &project.http_url_to_repo { (layout::code_line(&format!("git clone {}", layout::shell_word(url)))) }
            @if let Some(branch) = &project.default_branch { p.soft { "Default branch: " (layout::code(branch)) } }
            h2 { "Publish a package" }
            (publishing(context, &project.path_with_namespace))
        }
    };
    Content::new(project.name.clone(), Section::Namespaces, body)
}

/// All other fields from the API.
fn facts(namespace: &Namespace) -> Markup {
    let shown = namespace.others.iter().filter_map(|(name, value)| {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(value) => value.as_u64().map_or_else(|| value.to_string(), number),
            Value::Bool(value) => {
                if *value {
                    "yes".into()
                } else {
                    "no".into()
                }
            }
            _ => return None,
        };
        (!["web_url", "avatar_url", "path"].contains(&name.as_str())).then(|| (name.replace('_', " "), text))
    });
    html! {
        section.card aria-label="About" {
            h2 { "About" }
            dl {
                dt { "kind" } dd { (namespace.kind) }
                dt { "path" } dd { bdi { (namespace.full_path) } }
                @for (name, text) in shown { dt { (name) } dd { bdi { (text) } } }
            }
        }
    }
}
