//! Copies a whole store into an empty one, and compares both.

use std::sync::Arc;

use hexad_store::{Backend, Key, Ledger, MAX_VALUE_BYTES, StoreError};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use crate::{Engine, EngineError};

/// Keys that one page reads, if their values are small.
const PAGE: usize = 512;

/// The step in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    Copying,
    Comparing,
}

/// Why a store was not copied. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("the target is not empty; name an empty folder or database")]
    NotEmpty,
    #[error("a host uses the {0}; stop every host on it, and copy again")]
    InUse(&'static str),
    #[error("the copy differs from the source in the key `{0}` of the store `{1}`; remove the copy, and copy again")]
    Differs(String, String),
    #[error("the source has {0} keys and the copy {1}; stop what writes to them, remove the copy, and copy again")]
    Counts(u64, u64),
    #[error("cannot begin to copy: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{0}; what was copied is incomplete: remove it, and copy again")]
    Store(#[from] StoreError),
}

/// Copies everything, then compares every value, and returns the number of keys. Blocks. `progress` gets the step, the
/// keys that it has done, and all keys. Before [`finish`], the target cannot be opened: after a killed copy, no host
/// serves a part of a store.
pub fn copy(source: &Engine, target: &Engine, progress: impl FnMut(CopyStep, u64, u64)) -> Result<u64, CopyError> {
    runtime()?.block_on(copy_and_compare(source, target, progress))
}

/// Refuses a source that a host uses. Blocks. The caller checks before it makes the target, so that a refused copy
/// leaves no target.
pub fn check_source(source: &Engine) -> Result<(), CopyError> {
    runtime()?.block_on(check_unused(source, "source"))
}

/// Lets hosts open the target of a complete copy. Blocks.
pub fn finish(target: &Engine) -> Result<(), CopyError> {
    Ok(runtime()?.block_on(target.mark_unfinished(false))?)
}

fn runtime() -> Result<Runtime, CopyError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CopyError::Runtime)
}

async fn copy_and_compare(
    source: &Engine,
    target: &Engine,
    mut progress: impl FnMut(CopyStep, u64, u64),
) -> Result<u64, CopyError> {
    // A host may have begun to use the source since the check.
    check_unused(source, "source").await?;
    check_unused(target, "target").await?;
    if count(target).await? > 0 {
        return Err(CopyError::NotEmpty);
    }
    target.mark_unfinished(true).await?;
    let total = count(source).await?;
    let (from, to) = (source.backend(0)?, target.backend(0)?);
    for step in [CopyStep::Copying, CopyStep::Comparing] {
        let mut done = 0;
        for (store, _) in source.contents().await? {
            let store: Arc<str> = Arc::from(store);
            let mut after = String::new();
            loop {
                let page = read_page(&*from, &store, &after).await?;
                let Some((last, _)) = page.last() else { break };
                after = last.key.to_string();
                done += u64::try_from(page.len()).unwrap_or_default();
                match step {
                    CopyStep::Copying => write_page(&*to, page).await?,
                    CopyStep::Comparing => compare_page(&*to, &page).await?,
                }
                progress(step, done, total);
            }
        }
    }
    let (before, after) = (count(source).await?, count(target).await?);
    match before == after {
        true => Ok(after),
        false => Err(CopyError::Counts(before, after)),
    }
}

async fn check_unused(engine: &Engine, name: &'static str) -> Result<(), CopyError> {
    match engine.has_other_hosts().await? {
        true => Err(CopyError::InUse(name)),
        false => Ok(()),
    }
}

async fn count(engine: &Engine) -> Result<u64, EngineError> {
    Ok(engine.contents().await?.iter().map(|(_, keys)| keys).sum())
}

/// The next keys of a store and their values, as many as fit into memory.
async fn read_page(from: &dyn Backend, store: &Arc<str>, after: &str) -> Result<Vec<(Key, Vec<u8>)>, StoreError> {
    let names = from.list(store, "", after, PAGE).await?;
    let mut keys: Vec<Key> = names.into_iter().map(|key| Key { store: store.clone(), key: Arc::from(key) }).collect();
    loop {
        match from.get_many(&keys, MAX_VALUE_BYTES).await {
            // A single value always fits.
            Err(StoreError::ResultTooLarge { .. }) if keys.len() > 1 => keys.truncate(keys.len() / 2),
            values => {
                let values = values?.into_iter();
                return Ok(keys.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect());
            }
        }
    }
}

async fn write_page(to: &dyn Backend, page: Vec<(Key, Vec<u8>)>) -> Result<(), StoreError> {
    let ledger = Ledger::default();
    let Ok(permit) = Arc::new(Semaphore::new(1)).acquire_owned().await else { return Ok(()) };
    to.set_many(&ledger, page, permit).await?;
    to.durable(&ledger).await
}

async fn compare_page(to: &dyn Backend, page: &[(Key, Vec<u8>)]) -> Result<(), CopyError> {
    let keys: Vec<Key> = page.iter().map(|(key, _)| key.clone()).collect();
    let copies = to.get_many(&keys, MAX_VALUE_BYTES).await?;
    for ((key, value), copy) in page.iter().zip(copies) {
        if copy.as_ref() != Some(value) {
            return Err(CopyError::Differs(key.key.to_string(), key.store.to_string()));
        }
    }
    Ok(())
}
