//! Reads, which see committed data only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hexad_store::{Key, StoreError};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::classify::classify;

const GET: &str = "SELECT value FROM spin_key_value WHERE store = ?1 AND key = ?2";
const EXISTS: &str = "SELECT 1 FROM spin_key_value WHERE store = ?1 AND key = ?2";
/// Keys compare as bytes: the column has SQLite's default collation.
const LIST: &str = "SELECT key FROM spin_key_value
    WHERE store = ?1 AND key >= ?2 AND key > ?3 ORDER BY key LIMIT ?4";
/// Leaves out the host's own records.
const CONTENTS: &str =
    "SELECT store, count(*) FROM spin_key_value WHERE store <> '.hexad' GROUP BY store ORDER BY store";

/// One shard's connection. The mutex is never contended; it makes the type `Sync`.
pub struct Reader(Mutex<Connection>);

impl Reader {
    pub fn new(connection: Connection) -> Self {
        Self(Mutex::new(connection))
    }

    pub fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
        get(&self.connection(), key).map_err(classify)
    }

    pub fn exists(&self, key: &Key) -> Result<bool, StoreError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(EXISTS).map_err(classify)?;
        statement.exists((&*key.store, &*key.key)).map_err(classify)
    }

    pub fn list(&self, store: &str, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(LIST).map_err(classify)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows =
            statement.query_map((store, prefix, after, limit), |row| row.get::<_, String>(0)).map_err(classify)?;
        let mut keys = Vec::new();
        for key in rows {
            let key = key.map_err(classify)?;
            // Keys are sorted, so the first one without the prefix comes after all keys with it.
            if !key.starts_with(prefix) {
                break;
            }
            keys.push(key);
        }
        Ok(keys)
    }

    pub fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.get_many_unless(keys, limit, &AtomicBool::new(false))
    }

    /// As [`get_many`](Self::get_many), until `cancelled` is set; the values read by then are useless.
    pub fn get_many_unless(
        &self,
        keys: &[Key],
        limit: usize,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let connection = self.connection();
        // All values are read in one transaction, so they are from one snapshot.
        let snapshot = connection.unchecked_transaction().map_err(classify)?;
        let mut total = 0usize;
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            if cancelled.load(Ordering::Relaxed) {
                break;
            }
            let value = get(&snapshot, key).map_err(classify)?;
            total = total.saturating_add(value.as_ref().map_or(0, Vec::len));
            if total > limit {
                return Err(StoreError::ResultTooLarge { limit });
            }
            values.push(value);
        }
        Ok(values)
    }

    /// The stores by label, and how many keys each has.
    pub fn contents(&self) -> rusqlite::Result<Vec<(String, u64)>> {
        let connection = self.connection();
        let mut statement = connection.prepare(CONTENTS)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs())))?;
        rows.collect()
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic during a read leaves the connection usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of `key` as `connection` sees it. The writer's connection also sees its open transaction.
pub fn get(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached(GET)?.query_row((&*key.store, &*key.key), value).optional()
}

/// If another program or damage has given a value another type, its text is read. The component that owns the key
/// judges the bytes as usual, and the other keys of a request are read.
fn value(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    Ok(match row.get_ref(0)? {
        ValueRef::Blob(value) | ValueRef::Text(value) => value.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Real(number) => number.to_string().into_bytes(),
        ValueRef::Null => Vec::new(),
    })
}
