//! The repository over git's protocol. The tests in `tests/clients` clone it with git.

use super::{Forge, PRIVATE, PUBLIC, Repository};
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::ref_transaction::{RefChange, update_all};
use directory::member::Source;
use directory::project;
use directory::token::{self, Fingerprint, Subject, Token};
use futures::executor::block_on;
use http::{HeaderMap, Method};
use kit::Request;
use kit::testing::FailingStore;
use serde_json::Value;

fn forge() -> Forge {
    let forge = Forge::new();
    for project in [PUBLIC, PRIVATE] {
        forge.import(project, &Repository::with(&[("a.txt", b"one\n")]));
    }
    forge
}

fn git(forge: &Forge, path: &str, basic: Option<&str>) -> (u16, HeaderMap) {
    let mut request = Request::new(Method::GET, &format!("/api/v4/projects/{path}"));
    if let Some(basic) = basic {
        request.headers.insert("authorization", format!("Basic {basic}").parse().unwrap());
    }
    let response = futures::executor::block_on(crate::api::handle(forge.env(), request));
    (response.status.as_u16(), response.headers)
}

#[test]
fn fetching_refs_needs_read_access_to_the_repository() {
    let forge = forge();
    let scopes = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect();
    let deploy = |text: &str, scope: &str| {
        let subject = Subject::Deployment(Source::Project(PRIVATE));
        let token = Token { subject, name: "d".into(), scopes: scopes(&[scope]), expires_at: None, revoked: false };
        token::save(&forge.env(), &Fingerprint::of(text.as_bytes()), Some(token)).unwrap();
    };
    deploy("dep", "read_repository");
    deploy("pkg", "read_package_registry");
    forge.token("ro", 4, &["read_repository"]);
    // base64 of `u:rep`, `u:gus`, `u:otto`, `u:dep`, `u:pkg`, `u:ro`, `u:bad`.
    for (basic, public, private) in [
        (None, 200, 401),
        (Some("dTpyZXA="), 200, 200),
        (Some("dTpndXM="), 200, 403),
        (Some("dTpvdHRv"), 200, 404),
        (Some("dTpkZXA="), 200, 200),
        (Some("dTpwa2c="), 403, 403),
        (Some("dTpybw=="), 200, 200),
        (Some("dTpiYWQ="), 401, 401),
    ] {
        for (project, status) in [(PUBLIC, public), (PRIVATE, private)] {
            let (answered, headers) = git(&forge, &format!("{project}/repository.git/info/refs"), basic);
            assert_eq!(answered, status, "{basic:?} {project}");
            assert_eq!(headers.contains_key("www-authenticate"), status == 401);
        }
    }
    // A missing project and one that the caller may not see get the same response.
    assert_eq!(git(&forge, "999/repository.git/info/refs", None).0, 401);
    assert_eq!(git(&forge, "999/repository.git/info/refs", Some("dTpvdHRv")).0, 404);
    assert_eq!(git(&forge, "acme%2Fp7/repository.git/info/refs", None).0, 200);
}

#[test]
fn services() {
    let forge = forge();
    let base = format!("projects/{PUBLIC}/repository.git");
    let head = forge.head(PUBLIC, "main");
    let refs = forge.get(&format!("{base}/info/refs"), "");
    assert_eq!(refs.text(), format!("{head}\trefs/heads/main\n{head}\trefs/heads/topic\n"));
    let refs = forge.get(&format!("{base}/info/refs?service=git-upload-pack"), "");
    assert_eq!(refs.headers["content-type"], "application/x-git-upload-pack-advertisement");
    assert!(refs.text().starts_with("001e# service=git-upload-pack\n0000"), "{}", refs.text());
    assert!(refs.text().contains(&format!("{head} HEAD\0")) && refs.text().contains("symref=HEAD:refs/heads/main"));
    assert_eq!(forge.get(&format!("{base}/info/refs?service=git-shell"), "").status, 403);
    assert_eq!(forge.get(&format!("{base}/info/refs?service=git-receive-pack"), "").status, 401);
    assert_eq!(forge.get(&format!("{base}/info/refs?service=git-receive-pack"), "rep").status, 403);
    let refs = forge.get(&format!("{base}/info/refs?service=git-receive-pack"), "dev");
    assert!(refs.text().contains("report-status") && !refs.text().contains("HEAD"), "{}", refs.text());
    for missing in ["objects/info/packs", "objects/00/00", "config"] {
        assert_eq!(forge.get(&format!("{base}/{missing}"), "").status, 404, "{missing}");
    }
    assert_eq!(forge.get(&format!("{base}/git-upload-pack"), "").status, 405);
    let large = forge.send(Method::POST, &format!("{base}/info/lfs/objects/batch"), "dev", Value::Null);
    assert_eq!(large.status, 501);
    assert!(large.text().contains("Git LFS is not supported"));
    let garbage = forge.send_bytes(Method::POST, &format!("{base}/git-upload-pack"), "", "", b"garbage".to_vec());
    assert!(garbage.text().contains("ERR protocol error"), "{}", garbage.text());
    let garbage = forge.send_bytes(Method::POST, &format!("{base}/git-receive-pack"), "dev", "", b"garbage".to_vec());
    assert_eq!(garbage.status, 400);
}

#[test]
fn an_address_without_git_is_redirected_to_an_absolute_one() {
    let request = Request::new(Method::GET, "/acme/p7/info/refs?service=git-upload-pack&a=%20b");
    let response = block_on(crate::api::handle(forge().env(), request));
    let location = "https://forge.test:8443/acme/p7.git/info/refs?service=git-upload-pack&a=%20b";
    assert_eq!((response.status.as_u16(), response.headers["location"].to_str().unwrap()), (301, location));
}

#[test]
fn an_encoding_that_is_not_gzip_is_refused_by_its_name() {
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = format!("/api/v4/projects/{PUBLIC}/repository.git/{service}");
        let mut request = Request::new(Method::POST, &path);
        request.headers.insert("private-token", "dev".parse().unwrap());
        request.headers.insert("content-encoding", "br".parse().unwrap());
        let response = block_on(crate::api::handle(forge().env(), request));
        assert_eq!(response.status, 415);
        let text = block_on(response.body.collect(1 << 20)).unwrap();
        let text = String::from_utf8_lossy(&text);
        assert!(text.contains("The provided content-encoding 'br' is not supported."), "{text}");
    }
}

#[test]
fn a_job_reads_and_does_not_push() {
    let forge = forge();
    let subject = Subject::Job { user_id: 3, project_id: PRIVATE, running: true };
    let token = Token { subject, name: "j".into(), scopes: vec![], expires_at: None, revoked: false };
    token::save(&forge.env(), &Fingerprint::of(b"job"), Some(token)).unwrap();
    let basic = Some("Z2l0bGFiLWNpLXRva2VuOmpvYg==");
    assert_eq!(git(&forge, &format!("{PRIVATE}/repository.git/info/refs"), basic).0, 200);
    assert_eq!(git(&forge, &format!("{PRIVATE}/repository.git/info/refs?service=git-receive-pack"), basic).0, 403);
}

#[test]
fn an_empty_repository_has_no_refs() {
    let forge = Forge::new();
    let base = format!("projects/{PUBLIC}/repository.git");
    assert_eq!(forge.get(&format!("{base}/info/refs"), "").text(), "");
}

#[test]
fn the_head_is_the_projects_default_branch_if_it_is_there() {
    let forge = forge();
    let head = || forge.get(&format!("projects/{PUBLIC}/repository.git/HEAD"), "").text();
    forge.project(PUBLIC, |project| project.default_branch = Some("topic".into()));
    assert_eq!(head(), "ref: refs/heads/topic\n");
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!(head(), "ref: refs/heads/main\n", "the imported one");
}

/// The areas that show projects show the branch that git shows.
#[test]
fn the_default_branch_of_a_project_is_the_head_of_its_repository() {
    let found = |forge: &Forge| {
        let project = project::by_id(&forge.env(), PUBLIC).unwrap().unwrap();
        directory::default_branch::find(&forge.env(), &project).unwrap()
    };
    let agree = |forge: &Forge| {
        let head = forge.get(&format!("projects/{PUBLIC}/repository.git/HEAD"), "").text();
        assert_eq!(found(forge), head.trim_end().strip_prefix("ref: refs/heads/").map(str::to_owned));
    };
    let configure = |forge: &Forge, branch: Option<&str>| {
        forge.project(PUBLIC, |project| project.default_branch = branch.map(str::to_owned));
    };
    let empty = Forge::new();
    agree(&empty);
    configure(&empty, None);
    assert_eq!(found(&empty), None);
    let forge = forge();
    let long = "x".repeat(300);
    let all = [None, Some("main"), Some("topic"), Some("gone"), Some(long.as_str())];
    for configured in all {
        configure(&forge, configured);
        agree(&forge);
    }
    // A deletion that breaks off, at each point.
    configure(&forge, Some("main"));
    let commit = ObjectId::parse(&forge.head(PUBLIC, "main")).unwrap();
    let deletion = [RefChange { name: "heads/main", old: Some(commit), new: None }];
    let before = forge.store.snapshot();
    for operations in 0.. {
        let state = Forge { store: before.snapshot(), entropy: forge.entropy.clone() };
        let failing = FailingStore::after(operations, state.store.clone());
        let _ = update_all(&state.env_over(failing.clone()), RepositoryId::first(PUBLIC), &deletion);
        agree(&state);
        if !failing.failed() {
            break;
        }
    }
    forge.delete_branch(PUBLIC, "main");
    for configured in all {
        configure(&forge, configured);
        agree(&forge);
    }
    // A later project with the id.
    project::delete(&forge.env(), PUBLIC).unwrap();
    configure(&forge, None);
    assert_eq!(found(&forge), None);
    forge.git(&Repository::with(&[("a", b"a\n")]), PUBLIC, "mia", &["push", "-q", "URL", "topic:later"]).unwrap();
    agree(&forge);
}
