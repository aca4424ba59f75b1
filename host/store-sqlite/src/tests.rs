mod failures;
mod other_logs;
mod other_programs;
mod unusable;

use std::sync::atomic::Ordering;

use hexad_store::ErrorKind;
use hexad_store::lock::LockError;
use hexad_store_conformance::{self as conformance, key, permit};
use hexad_testing::wait::SOON;
use hexad_testing::wait_async::wait_until_async;

use super::*;

/// An engine in a directory of its own, and two shards of it.
struct Fixture {
    engine: Sqlite,
    one: Arc<dyn Backend>,
    two: Arc<dyn Backend>,
    /// Removed last.
    directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self::with(SqliteOptions::default())
    }

    fn with(options: SqliteOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let engine = Sqlite::open(directory.path(), &options).unwrap();
        let (one, two) = (engine.backend().unwrap(), engine.backend().unwrap());
        Self { engine, one, two, directory }
    }

    fn fail_next_commit(&self) {
        self.engine.writer.faults.fail_next_commit.store(true, Ordering::SeqCst);
    }

    fn problem(&self) -> Option<StoreProblem> {
        self.engine.health().failure().map(|failure| failure.problem)
    }

    /// Waits until the store has this problem, or none.
    async fn until_problem(&self, problem: Option<StoreProblem>) {
        wait_until_async(SOON, &format!("the problem {problem:?}"), async || self.problem() == problem).await;
    }
}

#[tokio::test]
async fn it_passes_the_conformance_checks() {
    let f = Fixture::new();
    conformance::check(conformance::Shards { one: &*f.one, two: &*f.two }).await;
}

#[tokio::test]
async fn a_publish_needs_one_flush_and_other_shards_see_it_once_durable() {
    // However slow the machine is, no transaction is committed because of its age.
    let f = Fixture::with(SqliteOptions { batch_age: Duration::from_secs(60), ..SqliteOptions::default() });
    let ledger = Ledger::default();
    f.one.set(&ledger, key("blob/1"), vec![1; 1 << 20], permit()).await.unwrap();
    f.one.set(&ledger, key("blob/2"), vec![2; 1 << 20], permit()).await.unwrap();
    let swap = f.one.cas(&ledger, key("root"), None, b"v1".to_vec()).await.unwrap();
    assert_eq!(swap, CasOutcome::Swapped);
    f.one.durable(&ledger).await.unwrap();
    assert_eq!(f.engine.commits(), 1);
    assert_eq!(f.two.get(&key("root")).await.unwrap(), Some(b"v1".to_vec()));
    assert_eq!(f.two.get(&key("blob/2")).await.unwrap(), Some(vec![2; 1 << 20]));
}

#[tokio::test]
async fn a_failed_commit_fails_its_requests_and_no_others() {
    let f = Fixture::new();
    let (writer, reader, later) = (Ledger::default(), Ledger::default(), Ledger::default());
    f.fail_next_commit();
    f.one.cas(&writer, key("root"), None, b"v1".to_vec()).await.unwrap();
    // The reader wrote nothing, but its result depends on a value that will be rolled back.
    let seen = f.two.cas(&reader, key("root"), None, b"v2".to_vec()).await.unwrap();
    assert_eq!(seen, CasOutcome::Lost(Some(b"v1".to_vec())));
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
    let f = Fixture::with(SqliteOptions { max_bytes: Some(256 * 1024), ..SqliteOptions::default() });
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
    let engine = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap();
    let backend = engine.backend().unwrap();
    assert_eq!(backend.get(&key("k")).await.unwrap(), Some(b"v".to_vec()));
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
}

#[test]
fn the_shard_does_not_read_many_keys_itself() {
    let f = Fixture::new();
    let keys: Vec<Key> = (0..1001).map(|n| key(&format!("k/{n}"))).collect();
    // The one thread for blocking work is busy, so that the first poll cannot finish.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (release, released) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        let busy = tokio::task::spawn_blocking(move || released.recv());
        let mut read = std::pin::pin!(f.one.get_many(&keys, 1 << 20));
        assert!(futures::poll!(read.as_mut()).is_pending());
        release.send(()).unwrap();
        assert_eq!(read.await.unwrap().len(), 1001);
        busy.await.unwrap().unwrap();
    });
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
        let engine = Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap();
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
    // As an earlier version left it.
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
    let engine = Sqlite::open(restored.path(), &SqliteOptions::default()).unwrap();
    let mut seen = Vec::new();
    // For example, the disk is full; nothing is lost.
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
