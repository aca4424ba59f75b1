//! Stores that are copied from a data folder, and into one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hexad_store::{Key, Ledger};
use hexad_store_conformance::{key, permit};
use hexad_store_postgres::{Passwords, Postgres, PostgresOptions, StoreUrl};
use hexad_testing::postgres::{self, Postgres as Server};
use tokio::runtime;

use super::*;
use crate::copy::{CopyError, CopyStep, copy, finish};

#[test]
fn a_store_is_copied_from_a_folder_and_back_and_compared() {
    if !postgres::is_enabled() {
        return;
    }
    let server = Server::start(&[]);
    let (folder, back, other) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |folder: &Path| Engine::open(folder, 1, &sqlite::SqliteOptions::default(), None).unwrap();
    let source = open(folder.path());
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fill = async {
        let (backend, ledger) = (source.backend(0).unwrap(), Ledger::default());
        let pairs = (0..1200u32).map(|n| (key(&format!("k/{n}")), n.to_le_bytes().repeat(n as usize % 7))).collect();
        backend.set_many(&ledger, pairs, permit()).await.unwrap();
        backend.set(&ledger, key("large"), vec![9; 20 << 20], permit()).await.unwrap();
        backend.set(&ledger, key("larger"), vec![8; 20 << 20], permit()).await.unwrap();
        backend.increment(&ledger, key("counter"), -3).await.unwrap();
        let elsewhere = Key { store: Arc::from("other"), key: Arc::from("k") };
        backend.set(&ledger, elsewhere, b"there".to_vec(), permit()).await.unwrap();
        backend.durable(&ledger).await.unwrap();
    };
    runtime.block_on(fill);

    let options = |name: &str| {
        let url = StoreUrl::parse(&server.url("postgres", name), &Passwords::default()).unwrap();
        PostgresOptions::new(url, 2, Duration::ZERO)
    };
    server.new_database("copied");
    let target = Engine::open(other.path(), 1, &sqlite::SqliteOptions::default(), Some(&options("copied"))).unwrap();
    let mut steps = Vec::new();
    let copied = copy(&source, &target, |step, done, total| steps.push((step, done, total))).unwrap();
    assert_eq!(copied, 1204);
    finish(&target).unwrap();
    assert!(steps.contains(&(CopyStep::Copying, 1204, 1204)) && steps.contains(&(CopyStep::Comparing, 1204, 1204)));

    let returned = open(back.path());
    assert_eq!(copy(&target, &returned, |_, _, _| ()).unwrap(), 1204);
    let read = async {
        let backend = returned.backend(0).unwrap();
        assert_eq!(backend.increment(&Ledger::default(), key("counter"), 1).await.unwrap(), -2);
        assert_eq!(backend.get(&key("k/6")).await.unwrap(), Some(6u32.to_le_bytes().repeat(6)));
    };
    runtime.block_on(read);

    assert!(matches!(copy(&source, &target, |_, _, _| ()), Err(CopyError::NotEmpty)));
    server.new_database("served");
    let data = tempfile::tempdir().unwrap();
    let host = Postgres::open(data.path(), 2, &options("served")).unwrap();
    let beside = Engine::open(
        tempfile::tempdir().unwrap().path(),
        1,
        &sqlite::SqliteOptions::default(),
        Some(&options("served")),
    );
    let refused = copy(&source, &beside.unwrap(), |_, _, _| ()).unwrap_err();
    assert!(refused.to_string().contains("stop every host"), "{refused}");
    drop(host);
}

/// As after a killed copy.
#[test]
fn a_copy_that_was_not_completed_is_not_served() {
    if !postgres::is_enabled() {
        return;
    }
    let server = Server::start(&[]);
    let (folder, back) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let open = |folder: &Path| Engine::open(folder, 1, &sqlite::SqliteOptions::default(), None);
    let source = open(folder.path()).unwrap();
    let url = server.new_database("half");
    let options = PostgresOptions::new(StoreUrl::parse(&url, &Passwords::default()).unwrap(), 2, Duration::ZERO);
    let other = tempfile::tempdir().unwrap();
    let open_target = || Engine::open(other.path(), 1, &sqlite::SqliteOptions::default(), Some(&options));
    let target = open_target().unwrap();
    copy(&source, &target, |_, _, _| ()).unwrap();
    drop(target);
    let refused = |opened: Result<Engine, EngineError>, advice: &str| {
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("not completed") && error.contains(advice), "{error}");
    };
    refused(open_target(), "drop schema hexad cascade");
    server.sql_in("half", "drop schema hexad cascade;");
    let target = open_target().unwrap();
    copy(&source, &target, |_, _, _| ()).unwrap();
    finish(&target).unwrap();
    drop(target);

    let target = open_target().unwrap();
    let returned = open(back.path()).unwrap();
    copy(&target, &returned, |_, _, _| ()).unwrap();
    drop(returned);
    refused(open(back.path()), &back.path().display().to_string());
    // Once the copy is complete, it can be opened.
    let again = tempfile::tempdir().unwrap();
    let returned = open(again.path()).unwrap();
    copy(&target, &returned, |_, _, _| ()).unwrap();
    finish(&returned).unwrap();
    drop(returned);
    open(again.path()).unwrap();
}
