//! The repository over git's protocol. The tests in `tests/clients` clone it with git.

use super::*;

fn forge() -> Forge {
    let forge = Forge::new();
    for project in [PUBLIC, PRIVATE] {
        forge.import(project, &Repository::with(&[("a.txt", b"one\n")]));
    }
    forge
}

fn git(forge: &Forge, path: &str, basic: Option<&str>) -> (u16, HeaderMap) {
    let basic = basic.map_or_else(String::new, |basic| format!("Basic {basic}"));
    let answer =
        send_with(forge.env(), Method::GET, &format!("projects/{path}"), &[("authorization", &basic)], Vec::new());
    (answer.status, answer.headers)
}

#[test]
fn fetching_refs_needs_read_access_to_the_repository() {
    let forge = forge();
    for (text, scope) in [("dep", "read_repository"), ("pkg", "read_package_registry")] {
        issue(&forge.env(), text, new_token(Subject::Deployment(Source::Project(PRIVATE)), &[scope]));
    }
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
    let large = forge.send(Method::POST, &format!("{base}/info/lfs/objects/batch"), "dev", Value::Null).expect(501);
    assert!(large.text().contains("Git LFS is not supported"));
    let garbage = forge.send_bytes(Method::POST, &format!("{base}/git-upload-pack"), "", "", b"garbage".to_vec());
    assert!(garbage.text().contains("ERR protocol error"), "{}", garbage.text());
    let garbage = forge.send_bytes(Method::POST, &format!("{base}/git-receive-pack"), "dev", "", b"garbage".to_vec());
    assert_eq!(garbage.status, 400);
}

#[test]
fn an_address_without_git_is_redirected_to_an_absolute_one() {
    let path = "/acme/p7/info/refs?service=git-upload-pack&a=%20b";
    let answer = send_with(forge().env(), Method::GET, path, &[], Vec::new());
    let location = "https://forge.test:8443/acme/p7.git/info/refs?service=git-upload-pack&a=%20b";
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (301, location));
}

#[test]
fn an_encoding_that_is_not_gzip_is_refused_by_its_name() {
    for service in ["git-upload-pack", "git-receive-pack"] {
        let path = format!("projects/{PUBLIC}/repository.git/{service}");
        let headers = [("private-token", "dev"), ("content-encoding", "br")];
        let text = send_with(forge().env(), Method::POST, &path, &headers, Vec::new()).expect(415).text();
        assert!(text.contains("The provided content-encoding 'br' is not supported."), "{text}");
    }
}

#[test]
fn a_job_reads_and_does_not_push() {
    let forge = forge();
    issue(&forge.env(), "job", new_token(Subject::Job { user_id: 3, project_id: PRIVATE, running: true }, &[]));
    let basic = Some("Z2l0bGFiLWNpLXRva2VuOmpvYg==");
    assert_eq!(git(&forge, &format!("{PRIVATE}/repository.git/info/refs"), basic).0, 200);
    assert_eq!(git(&forge, &format!("{PRIVATE}/repository.git/info/refs?service=git-receive-pack"), basic).0, 403);
}

#[test]
fn an_empty_repository_has_no_refs() {
    assert_eq!(Forge::new().refs(PUBLIC, ""), "");
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
    forge.fail_at_each_operation(|_, state, failing| {
        let _ = update_all(&state.env_over(failing), RepositoryId::first(PUBLIC), &deletion);
        agree(state);
    });
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
