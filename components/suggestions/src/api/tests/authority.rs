//! A caller's rights are checked when a request takes effect: a client may send its body as slowly as it likes.

use super::made_pack::{new_blob, with_one_commit};
use super::ref_names::body;
use super::*;

/// A change that takes a right from a caller.
type Withdrawal = fn(&Forge, u64, &str);

fn revoke(forge: &Forge, user_id: u64, name: &str) {
    issue(&forge.env(), name, Token { revoked: true, ..new_token(Subject::User(user_id), &["api"]) });
}

fn change_user(forge: &Forge, id: u64, name: &str, change: impl FnOnce(&mut NewUser)) {
    let mut user = new_user(id, name);
    change(&mut user);
    user::save(&forge.env(), user).unwrap();
}

fn block_user(forge: &Forge, id: u64, name: &str) {
    change_user(forge, id, name, |user| user.state = UserState::Blocked);
}

fn remove_member(forge: &Forge, user_id: u64, _: &str) {
    member::save(&forge.env(), user_id, &[(Source::Group(10), None)].into()).unwrap();
}

fn archive(forge: &Forge, _: u64, _: &str) {
    forge.project(PUBLIC, |project| project.archived = true);
}

fn delete(forge: &Forge, _: u64, _: &str) {
    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
}

fn delete_and_make(forge: &Forge, id: u64, name: &str) {
    delete(forge, id, name);
    forge.project(PUBLIC, |_| {});
}

/// Sends a body in these parts, with `meanwhile` before the last of them; the status and the response.
fn send(
    forge: &Forge,
    (method, path, token): (Method, &str, &str),
    media_type: &str,
    parts: [Vec<u8>; 2],
    meanwhile: impl FnOnce() + 'static,
) -> (u16, String) {
    let [first, last] = parts.map(Bytes::from);
    let last = std::iter::once_with(move || {
        meanwhile();
        Ok(last)
    });
    let body = Body::pull(std::iter::once(Ok(first)).chain(last));
    let headers = [("private-token", token), ("content-type", media_type)];
    let answer = send_with(forge.env(), method, path, &headers, body);
    (answer.status, answer.text())
}

fn halves(bytes: &[u8]) -> [Vec<u8>; 2] {
    let (first, last) = bytes.split_at(bytes.len() / 2);
    [first.to_vec(), last.to_vec()]
}

/// The area's stored keys and values, without the blobs of packs: those of a refused push are garbage.
fn stored(forge: &Forge) -> BTreeMap<String, Vec<u8>> {
    let is_blob = |key: &str| ["pack/", "pack_index/"].iter().any(|kind| key.contains(&format!("/v1/{kind}")));
    let keys = forge.store.keys().into_iter().filter(|key| key.starts_with("suggestions/") && !is_blob(key));
    keys.map(|key| (key.clone(), forge.store.get(&key).unwrap().unwrap_or_default())).collect()
}

fn push_body(refs: &[&str], capabilities: &str) -> Vec<u8> {
    let (pack, tip) = with_one_commit();
    let changes: Vec<_> = refs.iter().map(|name| (*name, None, Some(tip))).collect();
    [body(&changes, capabilities), pack].concat()
}

#[test]
fn a_push_moves_nothing_once_its_caller_may_not_push_any_more() {
    let withdrawals: [(&str, Withdrawal); 7] = [
        ("Token was revoked. You have to re-authorize from the user.", revoke),
        ("403 Forbidden - Your account has been blocked.", block_user),
        ("You are not allowed to push code to this project.", remove_member),
        ("You can't push to this project: its repository is read-only.", archive),
        ("The project you were looking for could not be found or you don't have permission to view it.", delete),
        (
            "The project you were looking for could not be found or you don't have permission to view it.",
            delete_and_make,
        ),
        ("401 Unauthorized", |forge, _, _| {
            token::save(&forge.env(), &Fingerprint::of(b"dev"), None).unwrap();
        }),
    ];
    for (reason, withdraw) in withdrawals {
        let forge = Rc::new(Forge::new());
        let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
        let body = push_body(&["heads/new", "tags/v1"], "");
        let (before, meanwhile) = (stored(&forge), forge.clone());
        let (status, report) =
            send(&forge, (Method::POST, &path, "dev"), "", halves(&body), move || withdraw(&meanwhile, 3, "dev"));
        assert_eq!(status, 200, "{report}");
        for name in ["refs/heads/new", "refs/tags/v1"] {
            assert!(report.contains(&format!("ng {name} {reason}\n")), "{reason}: {report}");
        }
        assert_eq!(stored(&forge), before, "{reason}");
    }
}

#[test]
fn a_branch_that_is_protected_while_a_push_is_sent_stays_as_it_is() {
    for (capabilities, other) in [("", "ok"), ("atomic", "ng")] {
        let forge = Rc::new(Forge::new());
        let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
        let body = push_body(&["heads/release", "heads/other"], capabilities);
        let meanwhile = forge.clone();
        let (_, report) = send(&forge, (Method::POST, &path, "dev"), "", halves(&body), move || {
            let protected = ProtectedBranch { name: "release".into(), push: Some(Role::Maintainer) };
            meanwhile.project(PUBLIC, |project| project.protected_branches = Some(vec![protected]));
        });
        assert!(report.contains("ng refs/heads/release protected branch\n"), "{report}");
        assert!(report.contains(&format!("{other} refs/heads/other")), "{report}");
        let refs = forge.refs(PUBLIC, "dev");
        assert_eq!((refs.contains("release"), refs.contains("other")), (false, other == "ok"));
    }
}

#[test]
fn a_fetch_gets_nothing_once_its_caller_may_not_read_any_more() {
    let mut body = Vec::new();
    pktline::write_text(&mut body, "command=ls-refs");
    pktline::write_flush(&mut body);
    for (withdraw, expected) in [(None, 200), (Some(revoke as Withdrawal), 401), (Some(delete), 404)] {
        let forge = Rc::new(Forge::new());
        let path = format!("projects/{PUBLIC}/repository.git/git-upload-pack");
        let meanwhile = forge.clone();
        let withdraw = move || withdraw.into_iter().for_each(|withdraw| withdraw(&meanwhile, 3, "dev"));
        let (status, response) = send(&forge, (Method::POST, &path, "dev"), "", halves(&body), withdraw);
        assert_eq!(status, expected, "{response}");
    }
}

#[test]
fn git_shows_why_a_push_was_refused_at_its_end() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    let inner = Forge { store: forge.store.clone(), entropy: Default::default() };
    let store = WatchedStore::over(forge.store.clone(), move |operation, key| {
        if operation == "set" && key.contains("/pack/") {
            revoke(&inner, 3, "dev");
        }
    });
    let why = forge.git_over(forge.env_over(store), &repository, PUBLIC, "dev", &["push", "URL", "topic"]).unwrap_err();
    assert!(why.contains("! [remote rejected] topic -> topic (Token was revoked."), "{why}");
}

/// A forge with a merge request, the ids of a suggestion and of its note, and the id of its discussion.
fn forge_with_suggestion() -> (Forge, u64, u64, String) {
    let (forge, _) = Forge::with(&[("a.txt", b"one\ntwo\nthree\n")]);
    let body = comment(&forge.head(PUBLIC, "topic"), "a.txt", 1, &block("", "uno"));
    let made = forge.comment(1, "dev", body);
    let (suggestion, made) = (made.suggestion(), made.json());
    let note = made["notes"][0]["id"].as_u64().unwrap();
    (forge, suggestion, note, made["id"].as_str().unwrap().to_owned())
}

#[test]
fn a_request_with_a_body_is_decided_on_when_the_body_is_read() {
    let merge_request = format!("projects/{PUBLIC}/merge_requests/1");
    let cases = |suggestion: u64, note: u64, discussion: &str, head: &str| {
        let position = comment(head, "a.txt", 2, "Hello");
        [
            (Method::PUT, format!("suggestions/{suggestion}/apply"), json!({"commit_message": "x"})),
            (Method::PUT, "suggestions/batch_apply".to_owned(), json!({"ids": [suggestion]})),
            (Method::POST, format!("{merge_request}/discussions"), position),
            (Method::POST, format!("{merge_request}/notes"), json!({"body": "Hello"})),
            (Method::POST, format!("{merge_request}/discussions/{discussion}/notes"), json!({"body": "Hello"})),
            (Method::PUT, format!("{merge_request}/discussions/{discussion}"), json!({"resolved": true})),
            (Method::PUT, format!("{merge_request}/notes/{note}"), json!({"body": "Hello"})),
            (Method::PUT, merge_request.clone(), json!({"title": "Hello"})),
            (
                Method::POST,
                format!("projects/{PUBLIC}/merge_requests"),
                json!({"title": "T", "source_branch": "topic", "target_branch": "other"}),
            ),
        ]
    };
    let (withdrawals, count): ([Withdrawal; 3], _) = ([revoke, block_user, archive], 9);
    for withdraw in withdrawals {
        for number in 0..count {
            let (forge, suggestion, note, discussion) = forge_with_suggestion();
            let head = forge.head(PUBLIC, "topic");
            let refs = json!({"refs": [{"name": "heads/other", "new": head}]});
            forge.send(Method::POST, &format!("import/suggestions/{PUBLIC}/refs"), "root", refs);
            let (method, path, body) = cases(suggestion, note, &discussion, &head)[number].clone();
            let (before, forge) = (stored(&forge), Rc::new(forge));
            let meanwhile = forge.clone();
            let parts = halves(body.to_string().as_bytes());
            let answer = send(&forge, (method.clone(), &path, "dev"), "application/json", parts, move || {
                withdraw(&meanwhile, 3, "dev");
            });
            let refused = forge.send(method, &path, "dev", body);
            assert_eq!(answer, (refused.status, refused.text()), "{path}");
            assert!((401..404).contains(&answer.0), "{path}: {answer:?}");
            assert_eq!(stored(&forge), before, "{path}");
        }
    }
}

fn demote(forge: &Forge, id: u64, name: &str) {
    change_user(forge, id, name, |user| user.is_admin = false);
}

#[test]
fn each_part_of_an_import_takes_an_administrator() {
    let line = |iid: u64| {
        let line = json!({"kind": "merge_request", "id": 100 + iid, "iid": iid, "project_id": PUBLIC,
            "source_branch": "topic", "target_branch": "main"});
        format!("{line}\n").into_bytes()
    };
    let (pack, tip) = with_one_commit();
    let objects = |texts: &[&str]| {
        let object = |text: &&str| {
            let id = new_blob(text.as_bytes().to_vec()).id;
            format!("{id} blob {}\n{text}\n", text.len()).into_bytes()
        };
        texts.iter().flat_map(object).collect::<Vec<u8>>()
    };
    let refs = json!({"refs": [{"name": "heads/other", "new": tip}], "head": "heads/other"}).to_string();
    let withdrawals: [(Withdrawal, u16); 4] = [(revoke, 401), (demote, 403), (block_user, 403), (delete, 404)];
    for (withdraw, expected) in withdrawals {
        let below = |name: &str| format!("import/suggestions/{PUBLIC}/{name}");
        let cases: [(String, [Vec<u8>; 2]); 6] = [
            ("import/suggestions".into(), halves(&line(1))),
            ("import/suggestions".into(), [line(1), line(2)]),
            (below("pack"), halves(&pack)),
            (below("objects"), halves(&objects(&["hello"]))),
            (below("refs"), halves(refs.as_bytes())),
            ("maintenance/suggestions/gc".into(), halves(b"{}")),
        ];
        for (path, parts) in cases {
            // A line of a deleted project is reported as a bad one.
            let is_of_project = path.contains(&format!("/{PUBLIC}/"));
            if expected == 404 && !is_of_project {
                continue;
            }
            let forge = Rc::new(Forge::new());
            if path.ends_with("/refs") {
                forge.send_bytes(Method::POST, &below("pack"), "root", "", pack.clone()).expect(200);
            }
            let (before, meanwhile) = (stored(&forge), forge.clone());
            let (status, text) = send(&forge, (Method::POST, &path, "root"), "application/json", parts, move || {
                withdraw(&meanwhile, 1, "root");
            });
            assert_eq!(status, expected, "{path}: {text}");
            assert_eq!(stored(&forge), before, "{path}");
        }
    }
    // Objects that were stored before the caller lost the right stay, as after any import that breaks off.
    let forge = Rc::new(Forge::new());
    let meanwhile = forge.clone();
    let parts = [objects(&["one", "two"]), objects(&["three"])];
    let path = format!("import/suggestions/{PUBLIC}/objects");
    let (status, _) = send(&forge, (Method::POST, &path, "root"), "", parts, move || revoke(&meanwhile, 1, "root"));
    let stored = forge.store.keys().iter().filter(|key| key.contains("/object/")).count();
    assert_eq!((status, stored), (401, 2));
}

#[test]
fn an_import_of_many_lines_authenticates_its_caller_a_few_times() {
    let forge = Forge::new();
    let lines: Vec<String> = (1..=250_u64)
        .map(|iid| {
            json!({"kind": "merge_request", "id": iid, "iid": iid, "project_id": FORK, "source_branch": "a",
                "target_branch": "b"})
            .to_string()
        })
        .collect();
    let (store, tokens) = WatchedStore::counting(&forge.store, |_, key| key.starts_with("directory/v1/token/"));
    let body = lines.join("\n").into_bytes();
    let answer = super::send(forge.env_over(store), Method::POST, "import/suggestions", "root", "", body);
    assert_eq!(answer.json()["failed"], Value::from(0), "{}", answer.text());
    assert_eq!(tokens.get(), 4, "at the beginning, and for each hundred lines");
}
