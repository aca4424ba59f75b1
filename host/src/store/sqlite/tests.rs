use std::sync::atomic::Ordering;

use super::*;
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
        let flag = &self.engine.writer.fail_next_commit;
        flag.store(true, Ordering::SeqCst);
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
    let damage = integrity_check::Damage::default();
    let run = |connection| {
        let check =
            integrity_check::IntegrityCheck::start(connection, f.directory.path().join(FILE_NAME), damage.clone());
        check.unwrap().finish();
    };
    run(f.engine.database.connect_reader().unwrap());
    assert_eq!(damage.get(), None, "the store is sound");

    let engine = f.engine;
    drop((f.one, f.two));
    let path = f.directory.path().join(FILE_NAME);
    drop(engine);
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2 / 4096 * 4096;
    bytes[middle..middle + 4096].fill(0xff);
    std::fs::write(&path, bytes).unwrap();
    run(rusqlite::Connection::open(&path).unwrap());
    assert!(damage.get().is_some());

    let other = Fixture::new();
    other.engine.writer.set_damage("page 7");
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
    let size = backup(f.directory.path(), &target).unwrap();
    stop.store(true, Ordering::SeqCst);
    writes.join().unwrap();
    assert_eq!(size, std::fs::metadata(&target).unwrap().len());
    assert!(matches!(backup(f.directory.path(), &target), Err(BackupError::Exists { .. })));

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
    assert!(matches!(backup(directory.path(), &directory.path().join("b")), Err(BackupError::NoStore { .. })));
    drop(Sqlite::open(directory.path(), &Options::default()).unwrap());
    assert_eq!(check(directory.path()).unwrap(), [""; 0]);
    std::fs::write(directory.path().join(FILE_NAME), b"not a database, but long enough".repeat(40)).unwrap();
    assert_eq!(check(directory.path()).unwrap().len(), 1);
}
