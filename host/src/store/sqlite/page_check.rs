//! SQLite's own checks of a database file.

use rusqlite::Connection;

/// Reads every page and returns at most `limit` findings, none if the database is sound. `check` is
/// `quick_check`, or `integrity_check`, which also compares the index with the table.
pub fn check_pages(connection: &Connection, check: &str, limit: usize) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(&format!("PRAGMA {check}({limit})"))?;
    let rows: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    // A row may have a heading and several lines.
    let lines = rows.iter().flat_map(|row| row.lines()).filter(|line| *line != "ok" && !line.starts_with("***"));
    Ok(lines.take(limit).map(str::to_owned).collect())
}
