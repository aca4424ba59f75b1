//! Lists of the API on standard output: a table, or one JSON object a line.

use std::io::Write;

use anyhow::{Context, Result};
use clap::Args;
use hexad::cli::printable;
use serde_json::Value;

use crate::server::Server;

/// The rows of a page, as many as the server gives at once.
const PER_PAGE: usize = 100;

/// How a command writes what it found.
#[derive(Args)]
pub struct Output {
    /// Write one JSON object a line, for programs.
    #[arg(long)]
    pub json: bool,
}

/// A column of a table: its heading, which is the field in lower case, and its least width.
pub type Column = (&'static str, usize);

/// Writes all rows of the list at `path`, a page at a time.
pub fn write(server: &Server, path: &str, columns: &[Column], output: &Output) -> Result<()> {
    let separator = if path.contains('?') { '&' } else { '?' };
    let mut out = std::io::stdout().lock();
    for page in 1.. {
        let text = server.get(&format!("{path}{separator}per_page={PER_PAGE}&page={page}"))?;
        let rows: Vec<Value> =
            serde_json::from_str(&text).context("the server answers with something that is no list")?;
        if page == 1 && !output.json && !rows.is_empty() {
            let headings = columns.iter().map(|(heading, width)| (heading.to_uppercase().replace('_', " "), *width));
            writeln!(out, "{}", line(headings))?;
        }
        for row in &rows {
            match output.json {
                true => writeln!(out, "{row}")?,
                false => {
                    writeln!(out, "{}", line(columns.iter().map(|(field, width)| (cell(row.get(field)), *width))))?
                }
            }
        }
        if rows.len() < PER_PAGE {
            break;
        }
    }
    Ok(())
}

fn line(cells: impl Iterator<Item = (String, usize)>) -> String {
    let cells: String = cells.map(|(text, width)| format!("{text:<width$}  ")).collect();
    cells.trim_end().to_owned()
}

fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => printable(text),
        Some(Value::Array(items)) => items.iter().map(|item| cell(Some(item))).collect::<Vec<_>>().join(","),
        Some(value) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_a_line_of_plain_text() {
        let cells = [serde_json::json!("a\x1b[2J\nb"), serde_json::json!(["api", "sudo"]), Value::Null];
        let shown = line(cells.iter().map(|value| (cell(Some(value)), 4)).chain([(cell(None), 9)]));
        assert_eq!(shown, "a\u{fffd}[2J\u{fffd}b  api,sudo  -     -");
    }
}
