//! Logs beside a database that they do not belong to.

use super::failures::open_error;
use super::*;

async fn put(f: &Fixture, name: &str, value: u8) {
    let ledger = Ledger::default();
    f.one.set(&ledger, key(name), vec![value; 9000], permit()).await.unwrap();
    f.one.durable(&ledger).await.unwrap();
}

/// The files of a store as a killed host leaves them, in a folder of their own.
fn killed(f: &Fixture) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for ending in ["", "-wal", "-shm"] {
        let name = format!("{FILE_NAME}{ending}");
        std::fs::copy(f.directory.path().join(&name), folder.path().join(&name)).unwrap();
    }
    folder
}

#[tokio::test]
async fn a_backup_is_not_opened_beside_the_log_of_a_killed_host() {
    let f = Fixture::new();
    put(&f, "k", 1).await;
    let backup_file = f.directory.path().join("copy");
    let attached = vec![Attachment { name: "a".to_owned(), content: vec![1] }];
    for attached in [Vec::new(), attached] {
        backup(f.directory.path(), &backup_file, || Ok(attached.clone())).unwrap();
        put(&f, "k", 2).await;
        put(&f, "later", 2).await;
        let folder = killed(&f);
        let (path, log) = (folder.path().join(FILE_NAME), folder.path().join(format!("{FILE_NAME}-wal")));
        std::fs::rename(&backup_file, &path).unwrap();
        let restored = std::fs::read(&path).unwrap();

        let text = open_error(folder.path()).to_string();
        assert!(text.starts_with(&format!("{} is not of the store", log.display())), "{text}");
        assert!(text.contains("move ") && text.contains("-shm"), "{text}");
        let text = check(folder.path()).unwrap_err().to_string();
        assert!(text.contains("is not of the store"), "{text}");
        let target = folder.path().join("again");
        let refused = backup(folder.path(), &target, || Ok(Vec::new()));
        assert!(matches!(refused, Err(BackupError::OtherLog { .. })) && !target.exists());
        assert_eq!(std::fs::read(&path).unwrap(), restored, "nothing has touched it");

        for ending in ["-wal", "-shm"] {
            std::fs::remove_file(folder.path().join(format!("{FILE_NAME}{ending}"))).unwrap();
        }
        let engine = Sqlite::open(folder.path(), &SqliteOptions::default()).unwrap();
        let backend = engine.backend().unwrap();
        assert_eq!(backend.get(&key("k")).await.unwrap().unwrap().len(), 9000);
        assert_eq!(backend.get(&key("later")).await.unwrap(), None);
        // From now on, the database has a log of its own, even if the host is killed before it writes.
        let ledger = Ledger::default();
        backend.set(&ledger, key("new"), vec![1], permit()).await.unwrap();
        backend.durable(&ledger).await.unwrap();
        let again = tempfile::tempdir().unwrap();
        for ending in ["", "-wal"] {
            let name = format!("{FILE_NAME}{ending}");
            std::fs::copy(folder.path().join(&name), again.path().join(&name)).unwrap();
        }
        let engine = Sqlite::open(again.path(), &SqliteOptions::default()).unwrap();
        assert_eq!(engine.backend().unwrap().get(&key("new")).await.unwrap(), Some(vec![1]));
        let ledger = Ledger::default();
        f.one.delete(&ledger, key("later")).await.unwrap();
        f.one.durable(&ledger).await.unwrap();
    }
}

#[tokio::test]
async fn the_log_of_a_killed_host_is_replayed_into_its_database() {
    let f = Fixture::new();
    put(&f, "k", 1).await;
    let folder = killed(&f);
    let engine = Sqlite::open(folder.path(), &SqliteOptions::default()).unwrap();
    assert_eq!(engine.backend().unwrap().get(&key("k")).await.unwrap(), Some(vec![1; 9000]));
}

#[test]
fn an_empty_log_is_ignored() {
    let f = Fixture::new();
    let folder = tempfile::tempdir().unwrap();
    backup(f.directory.path(), &folder.path().join(FILE_NAME), || Ok(Vec::new())).unwrap();
    std::fs::write(folder.path().join(format!("{FILE_NAME}-wal")), "").unwrap();
    Sqlite::open(folder.path(), &SqliteOptions::default()).unwrap();
}

#[test]
fn a_store_is_not_made_where_none_is_expected() {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteOptions { creates: false, ..SqliteOptions::default() };
    let error = Sqlite::open(folder.path(), &options).err().unwrap();
    assert!(matches!(error, SqliteOpenError::NoStore { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "not even a lock");
    drop(Sqlite::open(folder.path(), &SqliteOptions::default()).unwrap());
    Sqlite::open(folder.path(), &options).unwrap();
}
