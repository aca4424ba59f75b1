//! Files that a backup carries inside the database, in a table of their own, so that a backup is one file. A host that
//! opens the database extracts them.

use rusqlite::{Connection, OptionalExtension};

/// The table. This is a stored format: a backup of any version can be restored by later ones.
const CREATE: &str = "CREATE TABLE hexad_attachment (name TEXT PRIMARY KEY, content BLOB NOT NULL)";
const IS_THERE: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'hexad_attachment'";

/// A file, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    pub name: String,
    pub content: Vec<u8>,
}

/// Puts the attachments into a database that has none.
pub fn put(connection: &mut Connection, attachments: &[Attachment]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(CREATE)?;
    for Attachment { name, content } in attachments {
        transaction.execute("INSERT INTO hexad_attachment (name, content) VALUES (?1, ?2)", (name, content))?;
    }
    transaction.commit()
}

/// Gives the attachments to `restore`, and removes them after its success. If `restore` fails, or if the host ends in
/// between, the next start tries again. Without attachments, it does nothing.
pub fn take<E>(
    connection: &Connection,
    restore: impl FnOnce(Vec<Attachment>) -> Result<(), E>,
) -> rusqlite::Result<Result<(), E>> {
    if connection.query_row(IS_THERE, [], |_| Ok(())).optional()?.is_none() {
        return Ok(Ok(()));
    }
    let mut statement = connection.prepare("SELECT name, content FROM hexad_attachment ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok(Attachment { name: row.get(0)?, content: row.get(1)? }))?;
    let attachments = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    drop(statement);
    if let Err(error) = restore(attachments) {
        return Ok(Err(error));
    }
    connection.execute_batch("DROP TABLE hexad_attachment")?;
    Ok(Ok(()))
}
