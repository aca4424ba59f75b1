//! Damaged, full and failing stores, and checks and backups of them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use hexad_testing::wait::join;

use super::*;

pub fn open_error(directory: &Path) -> SqliteOpenError {
    match Sqlite::open(directory, &SqliteOptions::default()) {
        Ok(_) => panic!("{} was opened", directory.display()),
        Err(error) => error,
    }
}

#[test]
fn a_second_host_on_one_directory_is_refused() {
    let f = Fixture::new();
    let error = open_error(f.directory.path());
    assert!(matches!(error, SqliteOpenError::Lock(LockError::InUse { .. })), "{error}");
}

#[test]
fn the_error_of_a_damaged_store_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let fill = || {
        let engine = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap();
        let backend = engine.backend().unwrap();
        let ledger = Ledger::default();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            for n in 0..50 {
                backend.set(&ledger, key(&format!("k/{n}")), vec![1; 4000], permit()).await.unwrap();
            }
            backend.durable(&ledger).await.unwrap();
        });
    };
    fill();
    let whole = std::fs::read(&path).unwrap();
    let overwritten = |from: usize, to: usize| {
        let mut bytes = whole.clone();
        bytes[from..to].fill(0xff);
        bytes
    };
    let damages = [
        ("cut to nothing", Vec::new()),
        ("cut in half", whole[..whole.len() / 2].to_vec()),
        ("no database at all", b"not a database, but long enough to look at".repeat(40)),
        ("a page of its tree overwritten", overwritten(4096, 2 * 4096)),
    ];
    for (damage, bytes) in damages {
        std::fs::write(&path, bytes).unwrap();
        let error = open_error(directory.path());
        assert!(matches!(error, SqliteOpenError::Damaged { .. }), "{damage}: {error}");
        assert!(error.to_string().contains(FILE_NAME), "{damage}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::write(directory.path().join(format!("{FILE_NAME}-wal")), b"log").unwrap();
    let error = open_error(directory.path());
    assert!(matches!(error, SqliteOpenError::Damaged { .. }), "log without database: {error}");
}

#[tokio::test]
async fn a_large_store_is_checked_while_it_is_served_and_takes_no_writes_once_damage_is_found() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    for n in 0..200 {
        f.one.set(&ledger, key(&format!("k/{n:03}")), vec![1; 4000], permit()).await.unwrap();
    }
    f.one.durable(&ledger).await.unwrap();
    let health = Arc::new(StoreHealth::new(f.directory.path().join(FILE_NAME), Vec::new()));
    let run = |connection| integrity_check::IntegrityCheck::start(connection, health.clone()).unwrap().finish();
    run(f.engine.database.connect_reader().unwrap());
    assert_eq!(health.damage(), None, "the store is sound");

    let engine = f.engine;
    drop((f.one, f.two));
    let path = f.directory.path().join(FILE_NAME);
    drop(engine);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    run(rusqlite::Connection::open(&path).unwrap());
    assert!(health.damage().is_some());

    let other = Fixture::new();
    other.engine.health().set_damaged("page 7");
    let refused = other.one.set(&ledger, key("k"), vec![1], permit()).await.unwrap_err();
    assert!(refused.to_string().contains("page 7"), "{refused}");
    assert_eq!(other.one.get(&key("k")).await.unwrap(), None, "reads go on");
}

#[test]
fn a_table_of_another_program_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let connection = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
    connection.execute("CREATE TABLE spin_key_value (a, b)", []).unwrap();
    connection.close().unwrap();
    let error = open_error(directory.path());
    assert!(matches!(error, SqliteOpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("`spin_key_value` is not Spin's"), "{error}");
}

#[tokio::test]
async fn a_backup_is_a_snapshot_of_a_store_in_use() {
    let f = Fixture::new();
    let target = f.directory.path().join("copy");
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    // Two keys that are always written together, the second one last.
    let (writer, stopped) = (f.two.clone(), stop.clone());
    let writes = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut n = 0_u64;
            while !stopped.load(Ordering::SeqCst) || n < 10 {
                n += 1;
                let ledger = Ledger::default();
                for name in ["a", "b"] {
                    writer.set(&ledger, key(name), n.to_le_bytes().to_vec(), permit()).await.unwrap();
                }
                writer.durable(&ledger).await.unwrap();
            }
        });
    });
    let before = Ledger::default();
    f.one.set(&before, key("acknowledged"), vec![7; 1 << 20], permit()).await.unwrap();
    f.one.durable(&before).await.unwrap();
    let size = backup(f.directory.path(), &target, || Ok(Vec::new())).unwrap();
    stop.store(true, Ordering::SeqCst);
    join(writes, "the end of the writes");
    assert_eq!(size, std::fs::metadata(&target).unwrap().len());
    let again = backup(f.directory.path(), &target, || Ok(Vec::new()));
    assert!(matches!(again, Err(BackupError::Exists { .. })));

    let restored = tempfile::tempdir().unwrap();
    std::fs::rename(&target, restored.path().join(FILE_NAME)).unwrap();
    assert_eq!(check(restored.path()).unwrap(), [""; 0]);
    let engine = Sqlite::open(restored.path(), &SqliteOptions::default()).unwrap();
    let backend = engine.backend().unwrap();
    assert_eq!(backend.get(&key("acknowledged")).await.unwrap(), Some(vec![7; 1 << 20]));
    assert_eq!(backend.get(&key("a")).await.unwrap(), backend.get(&key("b")).await.unwrap());
}

#[tokio::test]
async fn backups_to_one_name_at_once_make_one_whole_copy_of_any_name() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("k"), vec![7; 1 << 20], permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for name in ["copy.db", "file:copy.db", "file:copy?mode=ro.db", "a'b;c \u{e9}"].map(OsStr::new) {
        let target = folder.path().join(name);
        let outcomes = std::thread::scope(|scope| {
            let make = || backup(f.directory.path(), &target, || Ok(Vec::new()));
            let backups = [(); 4].map(|()| scope.spawn(make));
            backups.map(|made| made.join().unwrap())
        });
        let size = target.metadata().unwrap().len();
        let mut made = 0;
        for outcome in outcomes {
            match outcome {
                Ok(length) => {
                    made += 1;
                    assert!(length == size && size > 1 << 20);
                }
                Err(error) => assert!(matches!(error, BackupError::Exists { .. }), "{error}"),
            }
        }
        assert_eq!(made, 1);
    }
    let odd = folder.path().join(OsStr::from_bytes(b"caf\xe9.db"));
    assert!(backup(f.directory.path(), &odd, || Ok(Vec::new())).unwrap() > 1 << 20);
    let files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
    assert_eq!(files.len(), 5, "no incomplete copy is left");
    for file in files {
        let metadata = file.metadata().unwrap();
        assert!(metadata.len() > 1 << 20 && metadata.permissions().mode() & 0o777 == 0o600, "{:?}", file.path());
    }
}

#[test]
fn a_damaged_store_is_not_taken_for_a_backup() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let target = directory.path().join("copy");
    let foreign = directory.path().join("foreign");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    drop(Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap());
    let mut page = std::fs::read(&path).unwrap();
    page[4096..].fill(0xff);
    for bytes in [Vec::new(), page, std::fs::read(&foreign).unwrap(), b"no database".repeat(1000)] {
        std::fs::write(&path, bytes).unwrap();
        let made = backup(directory.path(), &target, || Ok(Vec::new()));
        assert!(matches!(made, Err(BackupError::Damaged { .. })), "{made:?}");
        assert!(!target.exists());
    }
}

#[test]
fn a_check_needs_a_store_and_reports_damage() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(check(directory.path()), Err(SqliteOpenError::NoStore { .. })));
    let made = backup(directory.path(), &directory.path().join("b"), || Ok(Vec::new()));
    assert!(matches!(made, Err(BackupError::NoStore { .. })));
    drop(Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap());
    assert_eq!(check(directory.path()).unwrap(), [""; 0]);
    std::fs::write(directory.path().join(FILE_NAME), b"not a database, but long enough".repeat(40)).unwrap();
    assert_eq!(check(directory.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_store_says_so_and_recovers_by_itself() {
    let probe_interval = Duration::from_millis(1);
    let f = Fixture::with(SqliteOptions { max_bytes: Some(4 << 20), probe_interval, ..SqliteOptions::default() });
    let put = async |name: &str, bytes: usize| {
        let ledger = Ledger::default();
        let queued = f.one.set(&ledger, key(name), vec![7; bytes], permit()).await;
        queued.and(f.one.durable(&ledger).await)
    };
    put("first", 2 << 20).await.unwrap();
    assert_eq!(f.problem(), None);
    let error = put("second", 3 << 20).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Full), "{error}");
    assert_eq!(f.problem(), Some(StoreProblem::Full));
    assert_eq!(f.engine.health().failed_transactions(), 1);
    // A small record fits, but does not make the store usable.
    put("small", 10).await.unwrap();
    assert_eq!(f.problem(), Some(StoreProblem::Full));
    // A large value that is not written does not either.
    let ledger = Ledger::default();
    let lost = f.one.cas(&ledger, key("first"), None, vec![7; 3 << 20]).await.unwrap();
    assert!(matches!(lost, CasOutcome::Lost(Some(_))));
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.problem(), Some(StoreProblem::Full));
    let ledger = Ledger::default();
    f.one.delete(&ledger, key("first")).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    f.until_problem(None).await;
    let probes = f.one.list(&Arc::from(".hexad"), "", "", 9).await.unwrap();
    assert!(probes.is_empty(), "{probes:?}");
    put("second", 3 << 20).await.unwrap();
}

#[tokio::test]
async fn a_full_store_says_so_as_soon_as_it_is_opened() {
    let probe_interval = Duration::from_millis(1);
    let Fixture { directory, engine, one, two } = Fixture::new();
    let ledger = Ledger::default();
    one.set(&ledger, key("large"), vec![7; 1 << 20], permit()).await.unwrap();
    one.durable(&ledger).await.unwrap();
    drop((engine, one, two));
    // The database may have no further page.
    let options = SqliteOptions { max_bytes: Some(4096), probe_interval, ..SqliteOptions::default() };
    let engine = Sqlite::open(directory.path(), &options).unwrap();
    let (one, two) = (engine.backend().unwrap(), engine.backend().unwrap());
    let f = Fixture { directory, engine, one, two };
    assert_eq!(f.problem(), Some(StoreProblem::Full));
    let ledger = Ledger::default();
    f.one.delete(&ledger, key("large")).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    f.until_problem(None).await;
}

#[tokio::test]
async fn an_operation_that_fails_inside_a_transaction_has_the_reason() {
    let f = Fixture::with(SqliteOptions { max_bytes: Some(256 * 1024), ..SqliteOptions::default() });
    let error = f.one.cas(&Ledger::default(), key("root"), None, vec![7; 1 << 20]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Full), "{error}");
}

#[tokio::test]
async fn a_failed_flush_leaves_open_whether_the_write_took_place() {
    let f = Fixture::with(SqliteOptions { probe_interval: Duration::from_millis(1), ..SqliteOptions::default() });
    f.fail_next_commit();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("k"), vec![1], permit()).await.unwrap();
    let error = f.one.durable(&ledger).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown(StoreProblem::Unavailable), "{error}");
    f.until_problem(None).await;
}

#[tokio::test]
async fn a_volatile_change_that_is_lost_fails_nothing_else_of_its_request() {
    let f = Fixture::with(SqliteOptions { probe_interval: Duration::from_millis(1), ..SqliteOptions::default() });
    let ledger = Ledger::default();
    f.one.cas_volatile(&ledger, key("rate"), None, vec![1]).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.one.get(&key("rate")).await.unwrap(), Some(vec![1]), "the request reads what it has changed");
    f.fail_next_commit();
    f.one.cas_volatile(&ledger, key("rate"), Some(vec![1]), vec![2]).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    f.until_problem(None).await;
    f.one.set(&ledger, key("k"), vec![1], permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.one.get(&key("rate")).await.unwrap(), Some(vec![1]));
}

#[tokio::test]
async fn a_writer_that_ended_is_known_and_its_requests_are_told() {
    let f = Fixture::new();
    f.engine.writer.faults.panic_at_next_commit.store(true, Ordering::SeqCst);
    let (first, later) = (Ledger::default(), Ledger::default());
    f.one.set(&first, key("k"), vec![1], permit()).await.unwrap();
    let error = f.one.durable(&first).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown(StoreProblem::WriterStopped), "{error}");
    f.until_problem(Some(StoreProblem::WriterStopped)).await;
    let error = f.one.cas(&later, key("k"), None, vec![1]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::WriterStopped), "{error}");
    f.one.durable(&later).await.unwrap_err();
    assert_eq!(f.two.get(&key("k")).await.unwrap(), None, "reads go on");
}

#[tokio::test]
async fn a_read_of_a_damaged_page_is_known() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    for n in 0..200 {
        f.one.set(&ledger, key(&format!("k/{n:03}")), vec![1; 4000], permit()).await.unwrap();
    }
    f.one.durable(&ledger).await.unwrap();
    let Fixture { directory, engine, one, two } = f;
    drop((engine, one, two));
    let path = directory.path().join(FILE_NAME);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    let engine =
        Sqlite::open(directory.path(), &SqliteOptions { checked_at_open: 0, ..SqliteOptions::default() }).unwrap();
    let backend = engine.backend().unwrap();
    let mut errors = 0;
    for n in 0..200 {
        errors += usize::from(backend.get(&key(&format!("k/{n:03}"))).await.is_err());
    }
    assert!(errors > 0);
    let damage = engine.failure().unwrap().to_string();
    assert!(damage.contains(FILE_NAME) && damage.contains("restore it from a backup"), "{damage}");
}
