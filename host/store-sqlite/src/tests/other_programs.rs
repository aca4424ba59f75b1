//! Other programs that use, lock or remove the files of a store.

use hexad_testing::wait::SOON;
use hexad_testing::wait_async::wait_until_async;

use super::*;

/// Writes a value of this size, and waits until it is durable.
async fn put(f: &Fixture, bytes: usize) -> Result<(), StoreError> {
    let ledger = Ledger::default();
    let queued = f.one.set(&ledger, key("k"), vec![7; bytes], permit()).await;
    queued.and(f.one.durable(&ledger).await)
}

#[tokio::test]
async fn a_value_of_any_type_is_read_as_bytes() {
    let f = Fixture::new();
    let other = rusqlite::Connection::open(f.directory.path().join(FILE_NAME)).unwrap();
    let values = [("7", "7"), ("1.5", "1.5"), ("'text'", "text"), ("x'ff'", "\u{ff}")];
    for (name, (value, _)) in values.iter().enumerate() {
        let insert = format!("INSERT INTO spin_key_value (store, key, value) VALUES ('default', '{name}', {value})");
        other.execute(&insert, []).unwrap();
    }
    let keys = [0, 1, 2, 3].map(|name| key(&name.to_string()));
    let read = f.one.get_many(&keys, 1000).await.unwrap();
    let expected = values.map(|(_, read)| Some(read.chars().map(|byte| byte as u8).collect::<Vec<_>>()));
    assert_eq!(read, expected);
    assert_eq!(f.one.get(&keys[0]).await.unwrap(), expected[0]);
}

#[tokio::test]
async fn a_store_with_a_file_that_was_removed_takes_no_more_writes() {
    let endings = ["", "-wal", "-shm"];
    for (ending, replaced) in endings.iter().flat_map(|ending| [(ending, false), (ending, true)]) {
        let f = Fixture::new();
        let ledger = Ledger::default();
        f.one.set(&ledger, key("k"), vec![1], permit()).await.unwrap();
        f.one.durable(&ledger).await.unwrap();
        assert!(f.engine.health().failure().is_none());
        let path = f.directory.path().join(format!("{FILE_NAME}{ending}"));
        let bytes = std::fs::read(&path).unwrap();
        // Because of a second name, the replacing file cannot get the same inode number.
        std::fs::hard_link(&path, f.directory.path().join("removed")).unwrap();
        std::fs::remove_file(&path).unwrap();
        if replaced {
            std::fs::write(&path, bytes).unwrap();
        }
        f.one.set(&ledger, key("k"), vec![2], permit()).await.unwrap();
        let refused = f.one.durable(&ledger).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable(StoreProblem::Removed), "{refused}");
        assert_eq!(f.engine.health().failure().map(|failure| failure.problem), Some(StoreProblem::Removed));
        assert_eq!(f.engine.health().outage_bytes(), None, "no probe can end it");
    }
}

#[tokio::test]
async fn a_host_whose_lock_was_removed_writes_nothing_beside_another() {
    for replaced in [false, true] {
        let f = Fixture::new();
        put(&f, 1).await.unwrap();
        let path = f.directory.path().join("hexad.lock");
        // Because of a second name, the replacing file cannot get the same inode number.
        std::fs::hard_link(&path, f.directory.path().join("removed")).unwrap();
        std::fs::remove_file(&path).unwrap();
        let other = replaced.then(|| Sqlite::open(f.directory.path(), &SqliteOptions::default()).unwrap());
        let refused = put(&f, 2).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable(StoreProblem::Unlocked), "{refused}");
        assert!(refused.to_string().contains("hexad.lock was removed or replaced"), "{refused}");
        assert_eq!(f.problem(), Some(StoreProblem::Unlocked));
        assert_eq!(f.engine.health().outage_bytes(), None, "no probe can end it");
        if let Some(other) = other {
            assert!(other.health().failure().is_none(), "the other host has the lock");
        }
    }
}

#[tokio::test]
async fn the_end_of_the_writer_removes_the_log_and_is_no_failure_of_its_own() {
    let f = Fixture::new();
    let health = f.engine.health().clone();
    let log = f.directory.path().join(format!("{FILE_NAME}-wal"));
    assert!(log.exists());
    let Fixture { engine, one, two, directory: _directory } = f;
    drop((engine, one, two));
    assert!(!log.exists());
    assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::WriterStopped));
}

#[tokio::test]
async fn a_file_that_was_replaced_before_the_end_of_the_writer_is_known_after_it() {
    let f = Fixture::new();
    let health = f.engine.health().clone();
    let path = f.directory.path().join(FILE_NAME);
    std::fs::rename(&path, f.directory.path().join("moved away")).unwrap();
    std::fs::copy(f.directory.path().join("moved away"), &path).unwrap();
    drop(f);
    assert_eq!(health.failure().map(|failure| failure.problem), Some(StoreProblem::Removed));
}

#[tokio::test]
async fn a_write_waits_for_the_lock_of_another_program_unless_the_store_is_busy() {
    // Longer than any test may take.
    let (lock_wait, probe_interval) = (Duration::from_secs(3600), Duration::from_millis(1));
    let f = Fixture::with(SqliteOptions { lock_wait, probe_interval, ..SqliteOptions::default() });
    let other = rusqlite::Connection::open(f.directory.path().join(FILE_NAME)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut write = std::pin::pin!(put(&f, 10));
    assert!(futures::poll!(write.as_mut()).is_pending());
    other.execute_batch("COMMIT").unwrap();
    write.await.unwrap();
    assert_eq!(f.problem(), None);

    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    f.engine.health().begin_outage(StoreProblem::Busy, "locked", 0);
    for _ in 0..3 {
        let refused = put(&f, 10).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable(StoreProblem::Busy), "{refused}");
    }
    assert_eq!(f.problem(), Some(StoreProblem::Busy));
    assert!(f.one.get(&key("k")).await.unwrap().is_some(), "reads go on");
    // The writer finds out without a request.
    other.execute_batch("COMMIT").unwrap();
    f.until_problem(None).await;
    put(&f, 10).await.unwrap();
}

#[tokio::test]
async fn values_that_another_program_has_changed_are_forgotten() {
    let f = Fixture::new();
    put(&f, 10).await.unwrap();
    let clock = f.one.change_clock().unwrap();
    let number = clock.now();
    let buckets = [clock.bucket(&key("k"))];
    let other_bucket = clock.bucket(&key("other"));
    assert_eq!(f.one.get(&key("k")).await.unwrap().map(|value| value.len()), Some(10));
    let other = rusqlite::Connection::open(f.directory.path().join(FILE_NAME)).unwrap();
    other.execute("UPDATE spin_key_value SET value = x'01'", []).unwrap();
    // No request writes meanwhile.
    wait_until_async(SOON, "the other program's change", async || !clock.are_unchanged_since(number, &buckets)).await;
    assert!(!clock.is_unchanged_since(number, other_bucket), "every cached value and response is forgotten");
    assert_eq!(f.one.get(&key("k")).await.unwrap(), Some(vec![1]));
    let number = clock.now();
    put(&f, 10).await.unwrap();
    assert!(clock.is_unchanged_since(number, other_bucket), "the host's own commits are no other's");
}

#[tokio::test]
async fn no_lock_of_another_program_keeps_a_read_waiting() {
    let f = Fixture::new();
    put(&f, 10).await.unwrap();
    let other = rusqlite::Connection::open(f.directory.path().join(FILE_NAME)).unwrap();
    let reader = f.engine.database.connect_reader().unwrap();
    let patience: i64 = reader.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
    assert!(patience <= 50, "a shard serves nothing meanwhile: {patience} ms");
    reader.busy_timeout(Duration::ZERO).unwrap();
    let read = || reader.query_row("SELECT count(*) FROM spin_key_value", [], |row| row.get::<_, i64>(0));
    for lock in [
        "BEGIN EXCLUSIVE; DELETE FROM spin_key_value",
        "ROLLBACK; PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; UPDATE spin_key_value SET value = x'01'",
        "COMMIT; VACUUM",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA journal_mode = DELETE",
        "BEGIN EXCLUSIVE",
    ] {
        // Some locks are refused, because this host has the database open.
        let _ = other.execute_batch(lock);
        assert_eq!(read().unwrap(), 1, "{lock}");
    }
}
