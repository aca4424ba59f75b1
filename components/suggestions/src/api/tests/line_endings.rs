//! Line endings in suggestions and in their commits.

use super::*;

/// A file with these contents, after a suggestion on one of its lines was applied.
fn applied(contents: &str, line: u64, body: &str) -> String {
    let (forge, _) = Forge::with(&[("a.txt", contents.as_bytes())]);
    let id = forge.suggest(1, "a.txt", line, body)[0];
    forge.apply(id, "dev", Value::Null).expect(200);
    let clone = forge.clone(PUBLIC);
    String::from_utf8(clone.git(&["cat-file", "blob", "topic:a.txt"])).unwrap()
}

#[test]
fn every_line_of_a_suggestion_has_the_ending_of_the_line_in_its_place() {
    let crlf = "1\r\n2\r\n3\r\n";
    assert_eq!(applied(crlf, 2, &block("", "x\ny\nz")), "1\r\nx\r\ny\r\nz\r\n3\r\n");
    assert_eq!(applied(crlf, 2, &block(":-1+1", "x\ny")), "x\r\ny\r\n");
    assert_eq!(applied(crlf, 2, &block("", "x\r\ny")), "1\r\nx\r\ny\r\n3\r\n");
    assert_eq!(applied(crlf, 2, &block("", "x\n\ny")), "1\r\nx\r\n\r\ny\r\n3\r\n");
    // A mixed file.
    assert_eq!(applied("1\n2\r\n3\n", 2, &block("", "x\ny")), "1\nx\r\ny\r\n3\n");
    assert_eq!(applied("1\n2\r\n3\n", 1, &block("", "x\ny")), "x\ny\n2\r\n3\n");
    assert_eq!(applied("1\n2\r\n3\n", 2, &block(":-1+1", "x\ny\nz")), "x\ny\r\nz\n");
    // The last line has no ending, and neither has its replacement.
    assert_eq!(applied("1\r\n2", 2, &block("", "x\ny")), "1\r\nx\r\ny");
    assert_eq!(applied("1\n2", 2, &block("", "x\ny")), "1\nx\ny");
}

#[test]
fn the_answer_shows_the_endings_that_are_committed() {
    let (forge, _) = Forge::with(&[("a.txt", b"1\r\n2\r\n")]);
    let id = forge.suggest(1, "a.txt", 1, &block("", "x\ny"))[0];
    let shown = forge.get(&format!("suggestions/{id}"), "rep").json();
    assert_eq!((&shown["from_content"], &shown["to_content"]), (&json!("1\r\n"), &json!("x\r\ny\r\n")));
    // A suggestion that repeats its lines changes nothing.
    let same = forge.suggest(1, "a.txt", 1, &block(":+1", "1\n2"))[0];
    assert_eq!(forge.apply(same, "dev", Value::Null).refusal().1, "This suggestion already matches its content.");
}
