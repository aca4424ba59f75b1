//! Health: clients, load balancers and operators see when the store cannot do its work.

use crate::*;
use clap::Parser as _;
use hexad::cli::Backup;

/// A host whose store has at most this many bytes.
fn limited(max_bytes: u64) -> Server {
    limited_with(max_bytes, "")
}

/// The same, with `tool` in the component's table `tool.hexad`.
fn limited_with(max_bytes: u64, tool: &str) -> Server {
    let probe_interval = Duration::from_millis(1);
    let store = sqlite::SqliteOptions { max_bytes: Some(max_bytes), probe_interval, ..store() };
    Server::over(tempfile::tempdir().unwrap(), tool, store)
}

/// Status and text of a GET of the admin listener.
pub fn ask(access: &AdminAccess, path: &str) -> (u16, String) {
    let request =
        agent().get(format!("{}{path}", access.url)).header("authorization", format!("Bearer {}", access.token));
    let mut response = request.call().unwrap();
    (response.status().as_u16(), response.body_mut().read_to_string().unwrap())
}

fn store_problem(access: &AdminAccess) -> Value {
    let status: Value = serde_json::from_str(&ask(access, "/status").1).unwrap();
    status["host"]["store_problem"].clone()
}

#[tokio::test]
async fn a_full_store_is_not_ready_and_clients_are_told_to_try_again() {
    let mut server = limited(4 << 20);
    let access = server.administer();
    assert_eq!(ask(&access, "/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(store_problem(&access), Value::Null);
    server.ok("kv/set-big?key=probe/v1/first&value=2000000").await;

    let refused = server.send(get("kv/set-big?key=probe/v1/second&value=3000000")).await;
    assert_eq!(refused.headers()["retry-after"], "5");
    let (status, body) = text(refused).await;
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("nothing of the request was stored"), "{body}");
    assert!(!body.contains("SQL") && !body.contains("full"), "the cause is for the log: {body}");
    // Writes that wait for their result in the middle of the transaction.
    assert_eq!(server.get("kv/set-big?key=probe/v1/third&value=3000000").await.0, 503);

    assert_eq!(ask(&access, "/readyz"), (503, "store full\n".to_owned()));
    assert_eq!(ask(&access, "/healthz").0, 200, "a restart would not help");
    assert_eq!(store_problem(&access)["problem"], "full");
    let metrics = ask(&access, "/metrics").1;
    assert!(metrics.contains("hexad_store_problem{problem=\"full\"} 1"), "{metrics}");
    assert!(metrics.contains("hexad_store_problem{problem=\"damaged\"} 0"), "{metrics}");
    assert!(metrics.contains("reason=\"store_unavailable\"} 2"), "{metrics}");

    // After space was freed, the host notices without a request, because it gets none while it is not ready.
    server.ok("kv/delete?key=probe/v1/first").await;
    wait_until(SOON, "a host that is ready", || ask(&access, "/readyz").0 == 200);
    assert_eq!(store_problem(&access), Value::Null);
    server.ok("kv/set-big?key=probe/v1/second&value=3000000").await;
}

/// Otherwise a load balancer would send it requests until the first write fails.
#[tokio::test]
async fn a_host_that_starts_with_a_full_store_is_not_ready() {
    let server = Server::with("");
    server.ok("kv/set-big?key=probe/v1/first&value=2000000").await;
    let Server { host, folder } = server;
    drop(host);
    let probe_interval = Duration::from_millis(1);
    let full = sqlite::SqliteOptions { max_bytes: Some(4096), probe_interval, ..store() };
    let mut server = Server::over(folder, "", full);
    let access = server.administer();
    assert_eq!(ask(&access, "/readyz"), (503, "store full\n".to_owned()));
    assert_eq!(store_problem(&access)["problem"], "full");
    assert_eq!(server.ok("kv/get?key=probe/v1/other").await, "none", "reads go on");
    server.ok("kv/delete?key=probe/v1/first").await;
    wait_until(SOON, "a host that is ready", || ask(&access, "/readyz").0 == 200);
}

/// The instance may have cached numbers that it had taken from a counter.
#[tokio::test]
async fn an_instance_that_has_lost_a_write_takes_no_more_requests() {
    let server = limited(4 << 20);
    server.ok("kv/set-big?key=probe/v1/first&value=2000000").await;
    assert_eq!(server.ok("served").await, "2");
    assert_eq!(server.get("kv/set-big?key=probe/v1/second&value=3000000").await.0, 503);
    assert_eq!(server.ok("served").await, "1", "another instance");
    // The guest knows of a write that was refused, not lost.
    assert_eq!(server.ok("kv/get?key=probe/v1/second").await, "none");
    assert_eq!(server.ok("served").await, "3");
}

/// Otherwise a full store would fail requests that only read, because components count them.
#[tokio::test]
async fn a_change_of_a_volatile_key_that_is_lost_fails_no_request() {
    let server = limited_with(1 << 20, "volatile = [\"probe/v1/rate/\"]");
    server.ok("kv/set-big?key=probe/v1/first&value=990000").await;
    let create = |key: &str| format!("kv/create?key=probe/v1/{key}&value={}", "x".repeat(60_000));
    assert_eq!(server.get(&create("other")).await.0, 503);
    assert_eq!(server.ok("served").await, "1");
    let lost = server.ok(&create("rate/a")).await;
    assert!(lost.starts_with("other: "), "the guest knows: {lost}");
    assert_eq!(server.ok("kv/get?key=probe/v1/rate/a").await, "none");
    assert_eq!(server.ok("served").await, "4", "the instance goes on");
    assert_eq!(server.ok("kv/increment?key=probe/v1/rate/b").await, "1");
    assert_eq!(server.ok("kv/increment?key=probe/v1/rate/b").await, "2");
}

/// A data folder with a store whose pages are all damaged, except for the first.
fn damaged() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    drop(fixture::start(&folder, &manifest(""), &[], store()).unwrap());
    let path = folder.path().join("data").join(sqlite::FILE_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    folder
}

#[test]
fn a_start_on_a_damaged_store_names_file_and_remedy() {
    let folder = damaged();
    let unchecked = sqlite::SqliteOptions { checked_at_open: 0, ..store() };
    let error = fixture::start(&folder, &manifest(""), &[], unchecked).err().unwrap().to_string();
    assert!(error.contains(sqlite::FILE_NAME) && error.contains("restore it from a backup"), "{error}");
}

#[tokio::test]
async fn a_store_that_is_damaged_while_it_serves_is_not_ready() {
    let unchecked = || sqlite::SqliteOptions { checked_at_open: 0, ..store() };
    let server = Server::over(tempfile::tempdir().unwrap(), "", unchecked());
    // A table of several pages. A start reads few of them.
    for n in 0..100 {
        server.ok(&format!("kv/set-big?key=probe/v1/{n:03}&value=3000")).await;
    }
    let Server { host, folder } = server;
    drop(host);
    let path = folder.path().join("data").join(sqlite::FILE_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2 / 4096 * 4096;
    bytes[half..].fill(0xff);
    std::fs::write(&path, bytes).unwrap();

    let mut host = match fixture::start(&folder, &manifest(""), &[], unchecked()) {
        Ok(host) => host,
        // The check that runs beside the start may have been faster.
        Err(error) => return assert!(error.to_string().contains(sqlite::FILE_NAME), "{error}"),
    };
    let access = host.administer("127.0.0.1:0".parse().unwrap(), None).unwrap();
    let server = Server { host, folder };
    wait_until(SOON, "a host that is not ready", || ask(&access, "/readyz").0 != 200);
    assert_eq!(ask(&access, "/readyz"), (503, "store damaged\n".to_owned()));
    assert_eq!(store_problem(&access)["problem"], "damaged");
    let (status, _) = server.get("kv/set?key=probe/v1/new&value=1").await;
    assert_eq!(status, 500, "trying again is of no use");
}

#[tokio::test]
async fn a_store_that_another_program_keeps_locked_is_busy_until_that_ends() {
    let (lock_wait, probe_interval) = (Duration::from_millis(1), Duration::from_millis(1));
    let options = sqlite::SqliteOptions { lock_wait, probe_interval, ..store() };
    let mut server = Server::over(tempfile::tempdir().unwrap(), "", options);
    let access = server.administer();
    server.ok("kv/set?key=probe/v1/a&value=1").await;
    let other = rusqlite::Connection::open(server.folder.path().join("data").join(sqlite::FILE_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    for _ in 0..3 {
        let refused = server.send(get("kv/set?key=probe/v1/a&value=2")).await;
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"5".parse().unwrap()));
        assert_eq!(ask(&access, "/readyz"), (503, "store busy\n".to_owned()));
        assert_eq!(server.get("kv/get?key=probe/v1/a").await.0, 200, "reads go on");
    }
    other.execute_batch("ROLLBACK").unwrap();
    wait_until(SOON, "a host that is ready", || ask(&access, "/readyz").0 == 200);
    server.ok("kv/set?key=probe/v1/a&value=2").await;
}

#[derive(clap::Parser)]
struct BackupCommand {
    #[command(flatten)]
    backup: Backup,
}

/// The error of a backup into a file with this name.
fn backup(server: &Server, name: &str) -> Result<(), String> {
    let (target, data) = (server.folder.path().join(name), server.folder.path().join("data"));
    let arguments = ["backup".as_ref(), target.as_os_str(), "--data".as_ref(), data.as_os_str()];
    let made = BackupCommand::parse_from(arguments).backup.run();
    assert_eq!(made.is_ok(), target.exists());
    made.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_host_that_is_about_to_stop_tells_a_backup_that_its_store_was_replaced() {
    let mut server = Server::with("");
    let access = server.administer();
    server.ok("kv/set?key=probe/v1/a&value=1").await;
    server.host.drain();
    backup(&server, "before").unwrap();
    let data = server.folder.path().join("data");
    let (other, path) = (server.folder.path().join("before"), data.join(sqlite::FILE_NAME));
    std::fs::rename(&path, data.join("moved away")).unwrap();
    std::fs::copy(other, &path).unwrap();
    let error = backup(&server, "after").unwrap_err();
    assert!(error.contains("is not the one that the host writes to"), "{error}");
    assert_eq!(ask(&access, "/readyz"), (503, "stopping\n".to_owned()));
}

#[tokio::test]
async fn a_store_whose_log_was_removed_is_not_ready_and_has_no_backup() {
    let mut server = Server::with("");
    let access = server.administer();
    server.ok("kv/set?key=probe/v1/a&value=1").await;
    let data = server.folder.path().join("data");
    let backup = |name: &str| backup(&server, name);
    backup("before").unwrap();
    assert_eq!(ask(&access, "/readyz").0, 200);
    for ending in ["-wal", "-shm"] {
        std::fs::remove_file(data.join(format!("{}{ending}", sqlite::FILE_NAME))).unwrap();
    }
    // The first backup creates these files again.
    for name in ["during", "after"] {
        let error = backup(name).unwrap_err();
        assert!(error.contains("removed or replaced"), "{error}");
    }
    assert_eq!(ask(&access, "/readyz"), (503, "store removed\n".to_owned()));
    assert_eq!(server.get("kv/set?key=probe/v1/b&value=1").await.0, 503);
    assert_eq!(server.get("kv/get?key=probe/v1/a").await.0, 200, "reads go on");
}
