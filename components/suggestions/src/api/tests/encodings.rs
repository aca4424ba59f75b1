//! Suggestions on files that are no text, or text in another encoding than UTF-8.

use super::*;
use crate::discussion::{CommentedFile, Discussion};
use crate::store::discussions;
use crate::suggestion::Suggestion;

/// UTF-16 with a byte order mark.
fn utf_16(text: &str) -> Vec<u8> {
    std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect()
}

/// A file of lines with a zero byte at this offset.
fn zero_at(offset: usize) -> Vec<u8> {
    let mut file = b"a line\n".repeat(2000);
    file[offset] = 0;
    file
}

fn refusal() -> (u16, String) {
    (400, "This file is binary, and can't accept suggestions. Edit it directly.".into())
}

#[test]
fn a_comment_on_a_binary_file_has_no_suggestion() {
    let files: [(&str, &[u8]); 4] = [
        ("zero", b"a\0b\nc\n"),
        ("utf-16", &utf_16("one\ntwo\n")),
        ("last of the prefix", &zero_at(7999)),
        ("behind the prefix", &zero_at(8000)),
    ];
    let (forge, _) = Forge::with(&files);
    let head = forge.head(PUBLIC, "topic");
    for (path, expected) in [("zero", 0), ("utf-16", 0), ("last of the prefix", 0), ("behind the prefix", 1)] {
        let made = forge.comment(1, "rep", comment(&head, path, 1, &block("", "x")));
        assert_eq!(made.status, 201, "{path}");
        let made = made.json();
        let count = |note: &Value| note["suggestions"].as_array().unwrap().len();
        assert_eq!(count(&made["notes"][0]), expected, "{path}");
        let discussion = format!("projects/{PUBLIC}/merge_requests/1/discussions/{}", made["id"].as_str().unwrap());
        let reply = forge.send(Method::POST, &format!("{discussion}/notes"), "rep", json!({"body": block("", "y")}));
        assert_eq!((reply.status, count(&reply.json())), (201, expected), "{path}");
        let note = format!("{discussion}/notes/{}", made["notes"][0]["id"]);
        let edited = forge.send(Method::PUT, &note, "rep", json!({"body": block("", "z")}));
        assert_eq!((edited.status, count(&edited.json())), (200, expected), "{path}");
        assert_eq!(forge.get(&discussion, "rep").json()["notes"].as_array().unwrap().len(), 2, "{path}");
    }
}

#[test]
fn a_suggestion_on_a_file_that_became_binary_is_not_applied() {
    let (forge, repository) = Forge::with(&[("a.txt", b"one\ntwo\nthree\n")]);
    let id = forge.suggest(1, "a.txt", 1, &block("", "uno"))[0];
    assert_eq!(forge.flags(id), (true, false));
    repository.write("a.txt", b"one\ntwo\n\0three\n");
    repository.commit("binary");
    forge.import(PUBLIC, &repository);
    let before = forge.head(PUBLIC, "topic");
    assert_eq!(forge.flags(id), (false, false));
    assert_eq!(forge.apply(id, "dev", Value::Null).refusal(), refusal());
    assert_eq!(forge.apply_all(&[id], "dev").refusal(), refusal());
    assert_eq!(forge.head(PUBLIC, "topic"), before);
}

/// Earlier builds made such suggestions.
#[test]
fn a_stored_suggestion_on_a_binary_file_is_not_applied() {
    let (forge, repository) = Forge::with(&[("a", &utf_16("one\ntwo\n"))]);
    let made = forge.comment(1, "rep", comment(&forge.head(PUBLIC, "topic"), "a", 1, &block("", "uno"))).json();
    let stored = discussions::read(&forge.env(), made["id"].as_str().unwrap()).unwrap().unwrap();
    let id = |revision: &str| ObjectId::parse(&repository.text(&["rev-parse", revision])).unwrap();
    let file = CommentedFile {
        repository: RepositoryId::first(PUBLIC),
        commit: id("topic"),
        path: "a".into(),
        blob: id("topic:a"),
    };
    let mut earlier = Discussion { id: "e".repeat(40), file: Some(file), ..stored };
    let suggestion = Suggestion { id: 77, from_line: 1, to_line: 1, single_line: true, to_content: "uno\n".into() };
    earlier.notes[0].suggestions = vec![suggestion];
    discussions::save(&forge.env(), &earlier, &earlier.notes[0]).unwrap();
    let before = forge.head(PUBLIC, "topic");
    assert_eq!(forge.flags(77), (false, false));
    assert_eq!(forge.apply(77, "dev", Value::Null).refusal(), refusal());
    assert_eq!(forge.head(PUBLIC, "topic"), before);
    let note = format!("projects/{PUBLIC}/merge_requests/1/notes/{}", made["notes"][0]["id"]);
    assert_eq!(forge.get(&note, "rep").status, 200);
}

#[test]
fn the_bytes_of_other_lines_stay_whatever_their_encoding() {
    let contents = b"caf\xe9\nna\xefve\r\n\xff\xfe\x80\nlast \xe9";
    let (forge, _) = Forge::with(&[("latin-1", contents)]);
    let ids: Vec<u64> = [(2, "naive"), (4, "last é")]
        .iter()
        .map(|(line, text)| forge.suggest(1, "latin-1", *line, &block("", text))[0])
        .collect();
    let shown = forge.get(&format!("suggestions/{}", ids[0]), "rep").json();
    assert_eq!(shown["from_content"], "na\u{fffd}ve\r\n", "a byte that is not UTF-8 is shown as such");
    assert_eq!(shown["to_content"], "naive\r\n");
    assert_eq!(forge.apply_all(&ids, "dev").status, 200);
    let clone = forge.clone(PUBLIC);
    let after = clone.git(&["cat-file", "blob", "topic:latin-1"]);
    assert_eq!(after, b"caf\xe9\nnaive\r\n\xff\xfe\x80\nlast \xc3\xa9");
    // The client was shown other text than the file's, so it is a change.
    let same = forge.suggest(1, "latin-1", 1, &block("", "caf\u{fffd}"))[0];
    assert_eq!(forge.flags(same), (true, false));
}
