//! Suggestions that are applied at the same moment, and a host that is killed meanwhile.

use super::*;
use hexad_tests::forge::PRIVATE;
use hexad_tests::repository::Repository;
use hexad_tests::suggestions::{Suggestions, import_repository};

const CLIENTS: u64 = 16;
/// How many suggestions each client applies in the race.
const EACH: u64 = 3;
const ROUNDS: u64 = 4;
/// Acknowledged commits in a round before the process is killed.
const UNTIL_KILLED: usize = 12;

/// A server with a repository that has a file for each client, and merge requests 1 and 2 from
/// the branches `topic-1` and `topic-2`.
fn server(data: &Path) -> Server {
    let server = Server::start(data);
    forge::seed(&server);
    let repository = Repository::empty();
    for client in 0..CLIENTS {
        repository.write(&format!("dir-{}/file-{client}", client % 3), b"0\n");
    }
    repository.commit("first");
    repository.git(&["branch", "topic-1"]);
    repository.git(&["branch", "topic-2"]);
    import_repository(&server, PRIVATE, &repository, &[]);
    let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
    client.import_merge_request(1, "topic-1");
    client.import_merge_request(2, "topic-2");
    server
}

/// Suggests and applies until no other client changes the file first. Returns the suggestion's id. An error means that
/// the connection broke, and that the commit may exist or not.
fn apply(client: &Suggestions, merge_request: u64, path: &str, message: &str) -> Result<u64, ureq::Error> {
    loop {
        let head = client.try_head(&format!("topic-{merge_request}"))?;
        let id = client.suggest(merge_request, &head, path, 1, message)?;
        let answer = client.apply(id, message)?;
        let text = String::from_utf8_lossy(&answer.body);
        match answer.status {
            200 => return Ok(id),
            400 if text.contains("A file has been changed.") => {}
            status => panic!("{status} {text}"),
        }
    }
}

/// How often each message is in the history of a branch, whose commits each have one parent.
fn history(client: &Suggestions, branch: &str) -> BTreeMap<String, u32> {
    let clone = Repository::clone(&client.clone_url());
    assert_eq!(clone.text(&["rev-list", "--merges", &format!("origin/{branch}")]), "");
    let mut messages = BTreeMap::new();
    for message in clone.text(&["log", "--format=%s", &format!("origin/{branch}")]).lines() {
        *messages.entry(message.to_owned()).or_insert(0) += 1;
    }
    messages
}

#[test]
fn sixteen_clients_on_one_branch_lose_no_commit_and_repeat_none() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = server(data.path());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
            std::thread::spawn(move || {
                let path = format!("dir-{}/file-{number}", number % 3);
                for serial in 0..EACH {
                    apply(&client, 1, &path, &format!("{number} {serial}")).expect("the server is there");
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| join(client, "the end of a client"));
    let history = history(&Suggestions::new(&server, PRIVATE, DEVELOPER), "topic-1");
    let expected = (0..CLIENTS).flat_map(|number| (0..EACH).map(move |serial| (format!("{number} {serial}"), 1)));
    assert_eq!(history, expected.chain([("first".to_owned(), 1)]).collect());
}

#[test]
fn one_suggestion_is_applied_once_for_many_clients() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = server(data.path());
    let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
    let id = client.suggest(1, &client.head("topic-1"), "dir-0/file-0", 1, "x").expect("an answer");
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let client = client.clone();
            std::thread::spawn(move || client.apply(id, "once").expect("an answer").status)
        })
        .collect();
    let answers: Vec<u16> = clients.into_iter().map(|client| join(client, "an answer")).collect();
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|status| matches!(status, 200 | 400)), "{answers:?}");
    assert_eq!(history(&client, "topic-1")["once"], 1);
}

#[test]
fn acknowledged_commits_survive_kill_9_and_flags_agree_with_the_history() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let mut server = server(data.path());
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    for round in 0..ROUNDS {
        let (done, seen) = mpsc::channel();
        let clients: Vec<_> = (0..4)
            .map(|number| {
                let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
                let done = done.clone();
                std::thread::spawn(move || {
                    let path = format!("dir-{}/file-{number}", number % 3);
                    for serial in 0.. {
                        let message = format!("{round} {number} {serial}");
                        let Ok(id) = apply(&client, 1 + number % 2, &path, &message) else { return };
                        if done.send((message, id)).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        drop(done);
        acknowledged.extend(seen.iter().take(UNTIL_KILLED));
        server.kill();
        // Commits that were answered before the kill and not yet counted were acknowledged as well.
        acknowledged.extend(seen.iter());
        clients.into_iter().for_each(|client| join(client, "the end of a client"));
        server = Server::start(data.path());
        verify(&Suggestions::new(&server, PRIVATE, DEVELOPER), &acknowledged);
    }
    assert!(acknowledged.len() >= ROUNDS as usize * UNTIL_KILLED);
}

fn verify(client: &Suggestions, acknowledged: &BTreeMap<String, u64>) {
    let mut history = history(client, "topic-1");
    for (message, count) in self::history(client, "topic-2") {
        *history.entry(message).or_insert(0) += count;
    }
    for message in acknowledged.keys() {
        assert_eq!(history.get(message), Some(&1), "{message} was acknowledged");
    }
    assert!(history.iter().all(|(message, count)| *count == 1 || message == "first"), "{history:?}");
    // Each suggestion is applied if and only if a commit has its text.
    for merge_request in [1, 2] {
        let path = format!("projects/{PRIVATE}/merge_requests/{merge_request}/discussions?per_page=100&page=");
        for page in 1.. {
            let list = client.get(&format!("{path}{page}")).expect("an answer").json();
            let list = list.as_array().expect("a list").clone();
            for suggestion in list.iter().map(|discussion| &discussion["notes"][0]["suggestions"][0]) {
                let message = suggestion["to_content"].as_str().expect("a text").trim_end();
                let by_this = acknowledged.get(message).is_none_or(|id| suggestion["id"] == *id);
                if by_this && suggestion["applied"] == true {
                    assert!(history.contains_key(message), "{suggestion}");
                }
                if acknowledged.get(message).is_some_and(|id| suggestion["id"] == *id) {
                    assert_eq!(suggestion["applied"], true, "{suggestion}");
                }
            }
            if list.len() < 100 {
                break;
            }
        }
    }
}
