use std::sync::atomic::Ordering;

use super::*;
use crate::store::ErrorKind;
use crate::store::lock::LockError;

fn key(name: &str) -> Key {
    Key { store: Arc::from("default"), key: Arc::from(name) }
}

fn permit() -> OwnedSemaphorePermit {
    let budget = Arc::new(tokio::sync::Semaphore::new(1));
    budget.try_acquire_owned().unwrap()
}

/// An engine in a directory of its own, and two shards of it.
struct Fixture {
    directory: tempfile::TempDir,
    engine: Sqlite,
    one: Arc<dyn Backend>,
    two: Arc<dyn Backend>,
}

impl Fixture {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(directory.path(), &options).unwrap();
        let (one, two) = (engine.backend().unwrap(), engine.backend().unwrap());
        Self { directory, engine, one, two }
    }

    fn fail_next_commit(&self) {
        self.engine.writer.faults.fail_next_commit.store(true, Ordering::SeqCst);
    }

    fn problem(&self) -> Option<StoreProblem> {
        self.engine.health().failure().map(|failure| failure.problem)
    }

    /// Waits until the store has this problem, or none.
    async fn until_problem(&self, problem: Option<StoreProblem>) {
        while self.problem() != problem {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_publish_needs_one_flush_and_other_shards_see_it_once_durable() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("blob/1"), vec![1; 1 << 20], permit()).await.unwrap();
    f.one.set(&ledger, key("blob/2"), vec![2; 1 << 20], permit()).await.unwrap();
    let swap = f.one.cas(&ledger, key("root"), None, b"v1".to_vec()).await.unwrap();
    assert_eq!(swap, Swap::Swapped);
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.engine.commits(), 1);
    assert_eq!(f.two.get(&key("root")).await.unwrap(), Some(b"v1".to_vec()));
    assert_eq!(f.two.get(&key("blob/2")).await.unwrap(), Some(vec![2; 1 << 20]));
}

#[tokio::test]
async fn of_two_creators_exactly_one_wins_and_the_other_gets_its_value() {
    let f = Fixture::new();
    let (first, second) = (Ledger::default(), Ledger::default());
    let (a, b) = tokio::join!(
        f.one.cas(&first, key("root"), None, b"mine".to_vec()),
        f.two.cas(&second, key("root"), None, b"yours".to_vec()),
    );
    let (winner, lost) = match (a.unwrap(), b.unwrap()) {
        (Swap::Swapped, lost) => (b"mine".to_vec(), lost),
        (lost, Swap::Swapped) => (b"yours".to_vec(), lost),
        outcome => panic!("no swap succeeded: {outcome:?}"),
    };
    assert_eq!(lost, Swap::Lost(Some(winner.clone())));
    f.one.durable(&first).await.unwrap();
    f.two.durable(&second).await.unwrap();
    assert_eq!(f.one.get(&key("root")).await.unwrap(), Some(winner));
}

#[tokio::test]
async fn a_swap_is_exact_about_presence_and_bytes() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    let swap = async |expected: Option<&[u8]>, value: &[u8]| {
        let expected = expected.map(<[u8]>::to_vec);
        f.one.cas(&ledger, key("root"), expected, value.to_vec()).await.unwrap()
    };
    assert_eq!(swap(Some(b"v0"), b"v1").await, Swap::Lost(None));
    assert_eq!(swap(None, b"").await, Swap::Swapped);
    // An empty value is present.
    assert_eq!(swap(None, b"v1").await, Swap::Lost(Some(Vec::new())));
    assert_eq!(swap(Some(b""), b"v1").await, Swap::Swapped);
    assert_eq!(swap(Some(b"v"), b"v2").await, Swap::Lost(Some(b"v1".to_vec())));
}

#[tokio::test]
async fn writes_of_one_request_are_applied_in_order() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    for n in 0u32..500 {
        f.one.set(&ledger, key("k"), n.to_le_bytes().to_vec(), permit()).await.unwrap();
    }
    f.one.delete(&ledger, key("k")).await.unwrap();
    f.one.set(&ledger, key("k"), b"last".to_vec(), permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.one.get(&key("k")).await.unwrap(), Some(b"last".to_vec()));
}

#[tokio::test]
async fn counters_have_spins_form_and_other_values_are_refused() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    assert_eq!(f.one.increment(&ledger, key("n"), 5).await.unwrap(), 5);
    assert_eq!(f.two.increment(&ledger, key("n"), -7).await.unwrap(), -2);
    f.one.set(&ledger, key("text"), b"12".to_vec(), permit()).await.unwrap();
    let error = f.one.increment(&ledger, key("text"), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::NotACounter { len: 2, .. }), "{error}");
    f.one.increment(&ledger, key("max"), i64::MAX).await.unwrap();
    let error = f.one.increment(&ledger, key("max"), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::CounterOverflow { .. }), "{error}");
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.one.get(&key("n")).await.unwrap(), Some((-2i64).to_le_bytes().to_vec()));
}

#[tokio::test]
async fn a_failed_commit_fails_its_requests_and_no_others() {
    let f = Fixture::new();
    let (writer, reader, later) = (Ledger::default(), Ledger::default(), Ledger::default());
    f.fail_next_commit();
    f.one.cas(&writer, key("root"), None, b"v1".to_vec()).await.unwrap();
    // The reader wrote nothing, but its result depends on a value that will be rolled back.
    let seen = f.two.cas(&reader, key("root"), None, b"v2".to_vec()).await.unwrap();
    assert_eq!(seen, Swap::Lost(Some(b"v1".to_vec())));
    let error = f.one.durable(&writer).await.unwrap_err();
    assert!(matches!(error, StoreError::NotDurable(_)), "{error}");
    f.two.durable(&reader).await.unwrap_err();
    assert_eq!(f.one.get(&key("root")).await.unwrap(), None);
    // Further writes of the failed request are refused.
    f.one.set(&writer, key("root"), b"v3".to_vec(), permit()).await.unwrap_err();
    f.one.set(&later, key("root"), b"v4".to_vec(), permit()).await.unwrap();
    f.one.durable(&later).await.unwrap();
    assert_eq!(f.two.get(&key("root")).await.unwrap(), Some(b"v4".to_vec()));
}

#[tokio::test]
async fn writes_queued_after_a_failed_one_are_not_applied() {
    let f = Fixture::with(Options { max_bytes: Some(256 * 1024), ..Options::default() });
    let ledger = Ledger::default();
    // The blob does not fit; the root that names it is queued before the write fails.
    f.one.set(&ledger, key("blob"), vec![7; 1 << 20], permit()).await.unwrap();
    let root = f.one.set(&ledger, key("root"), b"names the blob".to_vec(), permit()).await;
    f.one.durable(&ledger).await.unwrap_err();
    assert_eq!(f.one.get(&key("root")).await.unwrap(), None, "{root:?}");
    // Other requests can still write.
    let small = Ledger::default();
    f.one.set(&small, key("small"), b"fits".to_vec(), permit()).await.unwrap();
    f.one.durable(&small).await.unwrap();
}

#[tokio::test]
async fn concurrent_requests_share_flushes() {
    let f = Fixture::new();
    let requests = (0..200).map(|n| {
        let backend = f.one.clone();
        async move {
            let ledger = Ledger::default();
            backend.set(&ledger, key(&format!("k/{n}")), vec![0; 16], permit()).await.unwrap();
            backend.durable(&ledger).await.unwrap();
        }
    });
    futures::future::join_all(requests).await;
    assert!(f.engine.commits() < 100, "{} flushes for 200 requests", f.engine.commits());
}

#[tokio::test]
async fn lists_one_prefix_in_pages() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    for name in ["a", "b/1", "b/2", "b/3", "b0", "c"] {
        f.one.set(&ledger, key(name), Vec::new(), permit()).await.unwrap();
    }
    let elsewhere = Key { store: Arc::from("other"), key: Arc::from("b/9") };
    f.one.set(&ledger, elsewhere, Vec::new(), permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    let store: Arc<str> = Arc::from("default");
    assert_eq!(f.one.list(&store, "b/", "", 2).await.unwrap(), ["b/1", "b/2"]);
    assert_eq!(f.one.list(&store, "b/", "b/2", 2).await.unwrap(), ["b/3"]);
    assert_eq!(f.one.list(&store, "b/", "z", 2).await.unwrap(), [""; 0]);
    assert_eq!(f.one.list(&store, "", "b/3", 9).await.unwrap(), ["b0", "c"]);
}

#[tokio::test]
async fn get_many_returns_every_key_in_order_and_is_bounded() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("b"), b"2".to_vec(), permit()).await.unwrap();
    f.one.set(&ledger, key("a"), b"1".to_vec(), permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    let keys = [key("b"), key("none"), key("a"), key("b")];
    let values = f.one.get_many(&keys, 100).await.unwrap();
    let expected = [Some(b"2".to_vec()), None, Some(b"1".to_vec()), Some(b"2".to_vec())];
    assert_eq!(values, expected);
    let error = f.one.get_many(&keys, 2).await.unwrap_err();
    assert!(matches!(error, StoreError::ResultTooLarge { limit: 2 }), "{error}");
}

#[tokio::test]
async fn data_survives_closing_and_opening() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("k"), b"v".to_vec(), permit()).await.unwrap();
    // No request waited for this write, but a clean stop finishes queued writes.
    let Fixture { directory, engine, one, two } = f;
    drop((engine, one, two));
    let engine = Sqlite::open(directory.path(), &Options::default()).unwrap();
    let backend = engine.backend().unwrap();
    assert_eq!(backend.get(&key("k")).await.unwrap(), Some(b"v".to_vec()));
}

fn open_error(directory: &Path) -> OpenError {
    match Sqlite::open(directory, &Options::default()) {
        Ok(_) => panic!("{} was opened", directory.display()),
        Err(error) => error,
    }
}

#[test]
fn a_second_host_on_one_directory_is_refused() {
    let f = Fixture::new();
    let error = open_error(f.directory.path());
    assert!(matches!(error, OpenError::Lock(LockError::InUse { .. })), "{error}");
}

#[test]
fn the_error_of_a_damaged_store_names_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(FILE_NAME);
    let fill = || {
        let engine = Sqlite::open(directory.path(), &Options::default()).unwrap();
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
        assert!(matches!(error, OpenError::Damaged { .. }), "{damage}: {error}");
        assert!(error.to_string().contains(FILE_NAME), "{damage}: {error}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::write(directory.path().join(format!("{FILE_NAME}-wal")), b"log").unwrap();
    let error = open_error(directory.path());
    assert!(matches!(error, OpenError::Damaged { .. }), "log without database: {error}");
}

#[tokio::test]
async fn a_large_store_is_checked_while_it_is_served_and_takes_no_writes_once_damage_is_found() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    for n in 0..200 {
        f.one.set(&ledger, key(&format!("k/{n:03}")), vec![1; 4000], permit()).await.unwrap();
    }
    f.one.durable(&ledger).await.unwrap();
    let health = Arc::new(StoreHealth::new(f.directory.path().join(FILE_NAME)));
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
    writes.join().unwrap();
    assert_eq!(size, std::fs::metadata(&target).unwrap().len());
    let again = backup(f.directory.path(), &target, || Ok(Vec::new()));
    assert!(matches!(again, Err(BackupError::Exists { .. })));

    let restored = tempfile::tempdir().unwrap();
    std::fs::rename(&target, restored.path().join(FILE_NAME)).unwrap();
    assert_eq!(check(restored.path()).unwrap(), [""; 0]);
    let engine = Sqlite::open(restored.path(), &Options::default()).unwrap();
    let backend = engine.backend().unwrap();
    assert_eq!(backend.get(&key("acknowledged")).await.unwrap(), Some(vec![7; 1 << 20]));
    assert_eq!(backend.get(&key("a")).await.unwrap(), backend.get(&key("b")).await.unwrap());
}

#[test]
fn a_check_needs_a_store_and_reports_damage() {
    let directory = tempfile::tempdir().unwrap();
    assert!(matches!(check(directory.path()), Err(OpenError::NoStore { .. })));
    let made = backup(directory.path(), &directory.path().join("b"), || Ok(Vec::new()));
    assert!(matches!(made, Err(BackupError::NoStore { .. })));
    drop(Sqlite::open(directory.path(), &Options::default()).unwrap());
    assert_eq!(check(directory.path()).unwrap(), [""; 0]);
    std::fs::write(directory.path().join(FILE_NAME), b"not a database, but long enough".repeat(40)).unwrap();
    assert_eq!(check(directory.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_full_store_says_so_and_recovers_by_itself() {
    let probe_interval = Duration::from_millis(1);
    let f = Fixture::with(Options { max_bytes: Some(4 << 20), probe_interval, ..Options::default() });
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
    // A small record fits; that does not make the store usable.
    put("small", 10).await.unwrap();
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
async fn an_operation_that_fails_inside_a_transaction_has_the_reason() {
    let f = Fixture::with(Options { max_bytes: Some(256 * 1024), ..Options::default() });
    let error = f.one.cas(&Ledger::default(), key("root"), None, vec![7; 1 << 20]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Full), "{error}");
}

#[tokio::test]
async fn a_failed_flush_leaves_open_whether_the_write_took_place() {
    let f = Fixture::with(Options { probe_interval: Duration::from_millis(1), ..Options::default() });
    f.fail_next_commit();
    let ledger = Ledger::default();
    f.one.set(&ledger, key("k"), vec![1], permit()).await.unwrap();
    let error = f.one.durable(&ledger).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown(StoreProblem::Unavailable), "{error}");
    f.until_problem(None).await;
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
    let engine = Sqlite::open(directory.path(), &Options { checked_at_open: 0, ..Options::default() }).unwrap();
    let backend = engine.backend().unwrap();
    let mut errors = 0;
    for n in 0..200 {
        errors += usize::from(backend.get(&key(&format!("k/{n:03}"))).await.is_err());
    }
    assert!(errors > 0);
    let damage = engine.failure().unwrap().to_string();
    assert!(damage.contains(FILE_NAME) && damage.contains("restore it from a backup"), "{damage}");
}

#[tokio::test]
async fn the_log_does_not_grow_although_no_commit_copies_it() {
    let f = Fixture::new();
    let automatic = f.engine.database.connect_writer(None).unwrap();
    let automatic: i64 = automatic.query_row("PRAGMA wal_autocheckpoint", [], |row| row.get(0)).unwrap();
    assert_eq!(automatic, 0, "a commit would copy the log while its requests wait");
    for n in 0..60 {
        let ledger = Ledger::default();
        f.one.set(&ledger, key(&format!("k/{}", n % 3)), vec![n; 4 << 20], permit()).await.unwrap();
        f.one.durable(&ledger).await.unwrap();
    }
    let log = size_of_file(f.directory.path(), "-wal");
    assert!(log < 160 << 20, "the log has {log} bytes after 240 MiB of writes");
    assert_eq!(f.two.get(&key("k/2")).await.unwrap(), Some(vec![59; 4 << 20]));
}

#[tokio::test]
async fn many_keys_are_read_from_one_snapshot_too() {
    let f = Fixture::new();
    let ledger = Ledger::default();
    let pairs = (0..1000u32).map(|n| (key(&format!("k/{n}")), n.to_le_bytes().to_vec())).collect();
    f.one.set_many(&ledger, pairs, permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
    let keys: Vec<Key> = (0..1001).map(|n| key(&format!("k/{n}"))).collect();
    let values = f.one.get_many(&keys, 1 << 20).await.unwrap();
    assert!(values[..1000].iter().zip(0u32..).all(|(value, n)| value.as_deref() == Some(&n.to_le_bytes()[..])));
    assert_eq!(values[1000], None);
    let error = f.one.get_many(&keys, 100).await.unwrap_err();
    assert!(matches!(error, StoreError::ResultTooLarge { limit: 100 }), "{error}");
    // The shard does not read them itself, so that the first poll cannot finish.
    let mut read = std::pin::pin!(f.one.get_many(&keys, 1 << 20));
    assert!(futures::poll!(read.as_mut()).is_pending());
    assert_eq!(read.await.unwrap().len(), 1001);
}

#[test]
fn the_files_of_a_store_are_private_in_a_folder_that_was_there_before() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let modes = |expected: usize| {
        let entries = std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap);
        let modes: Vec<_> =
            entries.map(|entry| (entry.file_name(), entry.metadata().unwrap().permissions().mode() & 0o777)).collect();
        assert!(modes.len() >= expected && modes.iter().all(|(_, mode)| *mode == 0o600), "{modes:?}");
    };
    let open = || {
        let engine = Sqlite::open(directory.path(), &Options::default()).unwrap();
        let backend = engine.backend().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let ledger = Ledger::default();
            backend.set(&ledger, key("k"), vec![1], permit()).await.unwrap();
            backend.durable(&ledger).await.unwrap();
        });
        // The database, its log, the log's index and the lock.
        modes(4);
    };
    open();
    // As an earlier version has left it.
    let path = directory.path().join(FILE_NAME);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    open();
    assert_eq!(std::fs::metadata(directory.path()).unwrap().permissions().mode() & 0o777, 0o755, "its owner chose it");
}

#[test]
fn attachments_of_a_backup_are_taken_out_once() {
    let f = Fixture::new();
    let target = f.directory.path().join("copy");
    let attached = vec![Attachment { name: "a".to_owned(), content: vec![1, 2] }];
    backup(f.directory.path(), &target, || Ok(attached.clone())).unwrap();
    let restored = tempfile::tempdir().unwrap();
    std::fs::rename(&target, restored.path().join(FILE_NAME)).unwrap();
    let engine = Sqlite::open(restored.path(), &Options::default()).unwrap();
    let mut seen = Vec::new();
    // The disk is full, for example; nothing is lost.
    assert_eq!(engine.restore_attachments(|_| Err("not now")).unwrap(), Err("not now"));
    for _ in 0..2 {
        let taken = engine.restore_attachments(|attachments| {
            seen.extend(attachments);
            Ok::<_, ()>(())
        });
        taken.unwrap().unwrap();
    }
    assert_eq!(seen, attached);
}
