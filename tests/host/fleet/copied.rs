//! `hexad store copy` carries what serves.

use super::*;

/// A host on a data folder, without PostgreSQL.
fn alone(folder: tempfile::TempDir) -> Member {
    let data = folder.path().join("data");
    let mut command = server::up(&manifest(folder.path()), &data);
    command.args(["--admin", "127.0.0.1:0", "--threads", "1"]);
    Member { server: Server::spawn(command, &data), folder }
}

fn copy(from: &str, to: &str) {
    let output = server::run(&["store", "copy", "--from", from, "--to", to], &[]);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 component swapped in"), "{out}{errors}");
}

#[test]
fn what_was_swapped_in_serves_after_the_store_is_copied_to_postgresql_and_back() {
    let Some(fleet) = Fleet::start() else { return };
    let first = alone(tempfile::tempdir().expect("a temporary folder"));
    for number in 1..=2 {
        assert_eq!(first.operator().swap("hello", &version(number)).status, 200);
    }
    let Member { server, folder } = first;
    assert_eq!(server.stop(), Some(0));
    copy(folder.path().join("data").to_str().expect("UTF-8"), &fleet.url);

    let hosts = [fleet.host(&[]), fleet.host(&[])];
    assert_eq!(hosts.each_ref().map(Member::serves), [2; 2]);
    let rolled_back = hosts[1].operator().post("/components/hello/rollback");
    assert_eq!(rolled_back.status, 200, "{}", rolled_back.text());
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
    for host in hosts {
        assert_eq!(host.server.stop(), Some(0));
    }

    let back = tempfile::tempdir().expect("a temporary folder");
    let data = back.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    copy(&fleet.url, data.to_str().expect("UTF-8"));
    let returned = alone(back);
    assert_eq!(returned.serves(), 1);
    let Member { server, folder } = returned;
    assert_eq!(server.stop(), Some(0));
    let again = alone(folder);
    assert_eq!(again.serves(), 1);
    let rolled_back = again.operator().post("/components/hello/rollback");
    assert_eq!(rolled_back.status, 200, "{}", rolled_back.text());
    assert_eq!(again.serves(), 2);
}
