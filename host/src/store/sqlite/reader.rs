//! Reading: committed data only.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row};

use super::super::{Error, Key};

const GET: &str = "SELECT value FROM spin_key_value WHERE store = ?1 AND key = ?2";
const EXISTS: &str = "SELECT 1 FROM spin_key_value WHERE store = ?1 AND key = ?2";
/// Keys compare as bytes: the column has SQLite's default collation.
const LIST: &str = "SELECT key FROM spin_key_value
    WHERE store = ?1 AND key >= ?2 AND key > ?3 ORDER BY key LIMIT ?4";

/// One shard's connection. The mutex is never contended: it only makes the type shareable.
pub struct Reader(Mutex<Connection>);

impl Reader {
    pub fn new(connection: Connection) -> Self {
        Self(Mutex::new(connection))
    }

    pub fn get(&self, key: &Key) -> Result<Option<Vec<u8>>, Error> {
        Ok(get(&self.connection(), key)?)
    }

    pub fn exists(&self, key: &Key) -> Result<bool, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(EXISTS)?;
        Ok(statement.exists((&*key.store, &*key.key))?)
    }

    pub fn list(&self, store: &str, prefix: &str, after: &str, limit: usize) -> Result<Vec<String>, Error> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(LIST)?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map((store, prefix, after, limit), |row| row.get::<_, String>(0))?;
        let mut keys = Vec::new();
        for key in rows {
            let key = key?;
            // Keys with one prefix are neighbours, so the first stranger ends them.
            if !key.starts_with(prefix) {
                break;
            }
            keys.push(key);
        }
        Ok(keys)
    }

    pub fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let connection = self.connection();
        // One read transaction: all of the values are from one snapshot.
        let snapshot = connection.unchecked_transaction()?;
        let mut total = 0usize;
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            let value = get(&snapshot, key)?;
            total = total.saturating_add(value.as_ref().map_or(0, Vec::len));
            if total > limit {
                return Err(Error::ResultTooLarge { limit });
            }
            values.push(value);
        }
        Ok(values)
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        // A panic cannot leave a read half done, so a poisoned connection is as good as before.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The value of `key`, as `connection` sees it.
pub fn get(connection: &Connection, key: &Key) -> rusqlite::Result<Option<Vec<u8>>> {
    connection.prepare_cached(GET)?.query_row((&*key.store, &*key.key), value).optional()
}

fn value(row: &Row<'_>) -> rusqlite::Result<Vec<u8>> {
    // As bytes whatever the column's storage class: another program may have stored text.
    Ok(row.get_ref(0)?.as_bytes_or_null()?.unwrap_or_default().to_vec())
}

/// Shares an error's text between the many who must hear of it.
pub fn reason(error: &rusqlite::Error) -> Arc<str> {
    Arc::from(error.to_string())
}
