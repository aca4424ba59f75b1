//! A database that can be opened, but whose table refuses the writes or reads of requests.

use super::failures::open_error;
use super::*;

async fn put(f: &Fixture, name: &str) -> Result<(), StoreError> {
    let ledger = Ledger::default();
    let queued = f.one.set(&ledger, key(name), vec![7; 10], permit()).await;
    queued.and(f.one.durable(&ledger).await)
}

/// A store, and another program that has it open.
fn store() -> (Fixture, rusqlite::Connection) {
    let f = Fixture::with(SqliteOptions { probe_interval: Duration::from_millis(1), ..SqliteOptions::default() });
    let other = rusqlite::Connection::open(f.directory.path().join(FILE_NAME)).unwrap();
    other.busy_timeout(Duration::from_secs(60)).unwrap();
    (f, other)
}

#[tokio::test]
async fn a_store_whose_table_is_gone_is_unusable_until_it_is_back() {
    let unusable = ErrorKind::Unavailable(StoreProblem::Unusable);
    for reads in [true, false] {
        let (f, other) = store();
        put(&f, "k").await.unwrap();
        other.execute_batch("ALTER TABLE spin_key_value RENAME TO away").unwrap();
        let error = match reads {
            true => f.two.get(&key("other")).await.unwrap_err(),
            false => put(&f, "k").await.unwrap_err(),
        };
        assert_eq!(error.kind(), unusable, "{error}");
        let failure = f.engine.health().failure().unwrap();
        assert_eq!(failure.problem, StoreProblem::Unusable);
        assert!(failure.reason.contains("no such table"), "{}", failure.reason);
        other.execute_batch("ALTER TABLE away RENAME TO spin_key_value").unwrap();
        f.until_problem(None).await;
        put(&f, "k").await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_refuses_every_write_is_unusable_until_it_takes_them() {
    for refuses in [
        "CREATE TRIGGER refuse BEFORE INSERT ON spin_key_value BEGIN SELECT raise(abort, 'closed'); END",
        "CREATE TRIGGER refuse AFTER DELETE ON spin_key_value BEGIN SELECT raise(abort, 'closed'); END",
        "CREATE TRIGGER refuse BEFORE INSERT ON spin_key_value BEGIN SELECT raise(ignore); END",
    ] {
        let (f, other) = store();
        put(&f, "k").await.unwrap();
        other.execute_batch(refuses).unwrap();
        let ledger = Ledger::default();
        let written = put(&f, "k").await;
        f.one.delete(&ledger, key("k")).await.unwrap();
        let removed = f.one.durable(&ledger).await;
        if refuses.contains("abort") {
            assert!(written.is_err() || removed.is_err());
        } else {
            // No error reports it, until the host probes for another reason.
            f.engine.health().suspect();
            f.engine.writer.commit_soon();
        }
        f.until_problem(Some(StoreProblem::Unusable)).await;
        other.execute_batch("DROP TRIGGER refuse").unwrap();
        f.until_problem(None).await;
        put(&f, "k").await.unwrap();
        assert!(f.one.list(&Arc::from(".hexad"), "", "", 9).await.unwrap().is_empty(), "the probe leaves nothing");
    }
}

#[tokio::test]
async fn a_write_that_fails_for_its_own_sake_is_no_problem_of_the_store() {
    let (f, other) = store();
    other
        .execute_batch(
            "CREATE TRIGGER refuse BEFORE INSERT ON spin_key_value WHEN new.key = 'odd'
             BEGIN SELECT raise(abort, 'odd'); END",
        )
        .unwrap();
    let error = put(&f, "odd").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    let health = f.engine.health();
    // The writer finds out that other values can be written.
    let is_settled = async || {
        assert!(health.failure().is_none());
        !health.is_suspected()
    };
    wait_until_async(SOON, "the end of the probe", is_settled).await;
    assert!(health.failure().is_none());
    put(&f, "other").await.unwrap();
}

/// SQLite would wait for a program at the other end of a pipe.
#[test]
fn a_pipe_or_a_folder_in_place_of_a_file_is_named() {
    for ending in ["", "-wal", "-shm", "-journal"] {
        let directory = tempfile::tempdir().unwrap();
        drop(Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap());
        let path = directory.path().join(format!("{FILE_NAME}{ending}"));
        let refuse = || {
            let text = open_error(directory.path()).to_string();
            let begin =
                format!("{} is a folder, a pipe or a device and no file of the store; move it ", path.display());
            assert_eq!(text, format!("{begin}away, and start again"));
            assert_eq!(check(directory.path()).unwrap_err().to_string(), text);
            let made = backup(directory.path(), &directory.path().join("copy"), || Ok(Vec::new()));
            assert_eq!(made.unwrap_err().to_string(), format!("{begin}away first"));
        };
        let _ = std::fs::remove_file(&path);
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        refuse();
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        refuse();
    }
}

#[test]
fn a_store_that_is_replaced_during_a_backup_is_not_copied() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(directory.path(), &SqliteOptions::default()).unwrap());
    let (path, other) = (directory.path().join(FILE_NAME), directory.path().join("other"));
    let replace = || {
        std::fs::copy(&path, &other).unwrap();
        std::fs::rename(&other, &path).unwrap();
        Ok(Vec::new())
    };
    let target = directory.path().join("copy");
    let refused = backup(directory.path(), &target, replace).unwrap_err();
    assert!(matches!(refused, BackupError::Replaced { .. }), "{refused}");
    assert!(!target.exists());
}
