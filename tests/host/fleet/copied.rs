//! `hexad store copy` copies the active components.

use super::*;
use hexad_tests::server;

/// Makes each write of a component into its store take ten minutes. The host's own store is not slowed, because the
/// host checks with a write whether it can write.
const SLOW_DISK: &str = "
    create function slow_disk() returns trigger language plpgsql as 'begin perform pg_sleep(600); return new; end';
    create trigger slow_disk before insert on hexad.kv for each row when (new.store <> '.hexad')
    execute function slow_disk();";
const WAITING: &str = "select count(*) from pg_stat_activity where wait_event = 'PgSleep';";

fn copy(from: &str, to: &str) {
    let output = server::run(&["store", "copy", "--from", from, "--to", to], &[]);
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 component swapped in"), "{out}{errors}");
}

#[test]
fn deployments_serve_after_a_copy_to_postgresql_and_back() {
    let Some(fleet) = Fleet::start() else { return };
    let first = host_alone();
    for number in 1..=2 {
        assert_eq!(first.operator().swap("hello", &version(number)).status, 200);
    }
    let folder = first.stop();
    copy(folder.path().join("data").to_str().expect("UTF-8"), &fleet.url);

    let hosts = [fleet.host(&[]), fleet.host(&[])];
    assert_eq!(hosts.each_ref().map(Member::serves), [2; 2]);
    hosts[1].operator().post("/components/hello/rollback").expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
    hosts.into_iter().for_each(|host| drop(host.stop()));

    let back = tempfile::tempdir().expect("a temporary folder");
    let data = back.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    copy(&fleet.url, data.to_str().expect("UTF-8"));
    let returned = host_alone_in(back);
    assert_eq!(returned.serves(), 1);
    let again = host_alone_in(returned.stop());
    assert_eq!(again.serves(), 1);
    again.operator().post("/components/hello/rollback").expect(200);
    assert_eq!(again.serves(), 2);
}

#[test]
fn a_copy_of_a_store_that_a_host_uses_leaves_no_target() {
    let Some(fleet) = Fleet::start() else { return };
    let (_host, target) = (fleet.host(&[]), fleet.database.new_database("target"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    for to in [&*target, data.to_str().expect("UTF-8")] {
        let refused = server::run(&["store", "copy", "--from", &fleet.url, "--to", to], &[]);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && errors.contains("a host uses the source"), "{errors}");
    }
    let schemas = fleet.database.sql_in("target", "select count(*) from pg_namespace where nspname = 'hexad';");
    assert_eq!(schemas.trim(), "0");
    assert!(!data.exists());
}

#[test]
fn a_copy_that_was_killed_is_served_by_no_host() {
    let Some(fleet) = Fleet::start() else { return };
    let data = tempfile::tempdir().expect("a temporary folder");
    let source = data.path().to_str().expect("UTF-8");
    let server = Server::start_manifest(Path::new("spin.toml"), data.path(), &[]);
    forge::seed(&server);
    assert_eq!(server.stop(), Some(0));
    // So that the tables are there.
    fleet.host(&[]).stop();
    fleet.database.sql_in("fleet", SLOW_DISK);
    let arguments = ["store", "copy", "--from", source, "--to", &fleet.url];
    let mut command = Command::new(server::program());
    let mut copy = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    wait_until(SOON, "the first write of the copy", || {
        assert!(copy.try_wait().expect("its state").is_none(), "it has ended");
        fleet.database.sql(WAITING).trim() != "0"
    });
    copy.kill().expect("it is killed");
    wait::exit(SOON, "the end of the copy", &mut copy);
    fleet.database.sql("select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event = 'PgSleep';");

    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut up = server::up(&manifest(folder.path()), &folder.path().join("data"));
    let up = server::output(up.args(["--store", &fleet.url]));
    let again = server::run(&arguments, &[]);
    for refused in [up, again] {
        let errors = String::from_utf8_lossy(&refused.stderr);
        let advice = "a copy into it was not completed; remove it with `drop schema hexad cascade`, and copy again";
        assert!(!refused.status.success() && errors.contains(advice), "{errors}");
    }
    fleet.database.sql_in("fleet", "drop schema hexad cascade; drop function slow_disk;");
    let copied = server::run(&arguments, &[]);
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    assert_eq!(fleet.host(&[]).serves(), 0);
}
