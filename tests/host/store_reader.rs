//! The reader in the documentation reads a store as the documentation describes it.

use super::*;
use hexad_tests::server::output;

#[test]
fn a_store_is_read_as_documented() {
    if std::env::var("HEXAD_CLIENTS").as_deref() == Ok("no") {
        return;
    }
    let data = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(data.path());
    forge::seed(&server);
    let tarball = package::tarball("lasting", "1.0.0", 3_000_000, 1);
    let published = Registry::new(&server, PUBLIC, DEVELOPER).publish("lasting", "1.0.0", &tarball).expect("an answer");
    assert_eq!(published.status, 200, "{}", published.text());
    server.kill();
    let mut command = Command::new("python3");
    command.arg(root().join("docs/reference/read_store.py")).arg(data.path().join("sqlite_key_value.db"));
    let read = output(&mut command);
    let text = String::from_utf8_lossy(&read.stdout);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    for line in ["user 3 ", "package lasting in project ", &format!("file {} sound", tarball.len())] {
        assert!(text.lines().any(|found| found.starts_with(line)), "no line `{line}`:\n{text}");
    }
    assert!(text.lines().any(|line| line.starts_with("project ") && line.contains('/')), "{text}");
    assert!(!text.contains("DAMAGED"), "{text}");
}
