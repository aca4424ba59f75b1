//! `hexad import`: sends a file of records to the areas that import them.

mod split;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use hexad::cli::printable;
use serde::Deserialize;
use ureq::SendBody;

use crate::progress;
use crate::server::Server;
use crate::text::counted;
use split::{AreaLines, IMPORTERS, Importer, LineReader};

/// The size of the read buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// Send a file of records, one JSON object a line, to the areas that own them.
#[derive(Args)]
pub struct Import {
    /// The file; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,

    #[command(flatten)]
    server: Server,
}

/// An area's answer to an import.
#[derive(Deserialize)]
struct Report {
    imported: BTreeMap<String, u64>,
    failed: u64,
    errors: Vec<RefusedLine>,
    #[serde(default)]
    warnings: Vec<LineWarning>,
}

#[derive(Deserialize)]
struct LineWarning {
    /// The line number, as in [`RefusedLine::line`].
    line: u64,
    warning: String,
}

#[derive(Deserialize)]
struct RefusedLine {
    /// The number among the sent lines, from 1.
    line: u64,
    error: String,
}

impl Import {
    pub fn run(self) -> Result<()> {
        // Fails early, before a large file is read.
        self.server.authorization()?;
        let file = open(&self.file)?;
        let size = file.metadata()?.len();

        let bar = progress::bytes("reading", size);
        let scan = split::scan(BufReader::with_capacity(BUFFER, &file), |bytes| bar.set_position(bytes))?;
        bar.finish_and_clear();
        for (number, error) in &scan.first_errors {
            writeln!(io::stderr(), "line {number}: {}", printable(&error.to_string()))?;
        }
        print_unlisted(scan.errors, scan.first_errors.len())?;

        let mut failed = scan.errors;
        let mut records = scan.errors;
        for (index, (importer, lines)) in IMPORTERS.iter().zip(&scan.areas).enumerate() {
            if lines.count > 0 {
                records += lines.count;
                failed += self.send(&file, index, importer, lines)?;
            }
        }
        match failed {
            0 => Ok(()),
            failed => bail!("{failed} of {records} records were not imported, listed above"),
        }
    }

    /// Sends the lines of one area and prints the outcome. Returns the number of refused lines.
    fn send(&self, file: &File, index: usize, importer: &Importer, lines: &AreaLines) -> Result<u64> {
        let started = Instant::now();
        let bar = progress::bytes(importer.area, lines.bytes);
        let mut body = bar.wrap_read(reader(file, index, lines)?);
        let sent = self.server.post(importer.path, "application/x-ndjson", SendBody::from_reader(&mut body));
        bar.finish_and_clear();
        let mut report: Report = sent?;

        report.errors.sort_by_key(|refused| refused.line);
        let sent_numbers: Vec<u64> = report.errors.iter().map(|refused| refused.line).collect();
        let numbers = reader(file, index, lines)?.file_numbers(&sent_numbers)?;
        for (number, refused) in numbers.iter().zip(&report.errors) {
            writeln!(io::stderr(), "line {number}: {}", printable(&refused.error))?;
        }
        print_unlisted(report.failed, report.errors.len())?;
        report.warnings.sort_by_key(|warned| warned.line);
        let sent_numbers: Vec<u64> = report.warnings.iter().map(|warned| warned.line).collect();
        let numbers = reader(file, index, lines)?.file_numbers(&sent_numbers)?;
        for (number, warned) in numbers.iter().zip(&report.warnings) {
            writeln!(io::stderr(), "line {number}: warning: {}", printable(&warned.warning))?;
        }

        let kinds: Vec<String> = report.imported.iter().map(|(kind, count)| counted(*count, kind)).collect();
        let imported = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stdout(), "{}: {imported} in {seconds:.1} s", importer.area)?;
        Ok(report.failed)
    }
}

/// The file, or a temporary copy of a pipe, because records are read more than once.
fn open(path: &Path) -> Result<File> {
    let mut pipe: Box<dyn io::Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Box::new(file)
    };
    let mut copy =
        tempfile::tempfile().map_err(|error| anyhow!("cannot make a temporary file: {error}; set TMPDIR"))?;
    io::copy(&mut pipe, &mut copy).with_context(|| format!("cannot read {}", path.display()))?;
    copy.rewind()?;
    Ok(copy)
}

/// Reads the lines of one area.
fn reader<'a>(mut file: &'a File, index: usize, lines: &AreaLines) -> io::Result<LineReader<BufReader<&'a File>>> {
    file.seek(SeekFrom::Start(lines.start))?;
    Ok(LineReader::new(BufReader::with_capacity(BUFFER, file), index, lines))
}

/// Prints how many refused lines are not listed.
fn print_unlisted(failed: u64, listed: usize) -> io::Result<()> {
    let unlisted = failed.saturating_sub(listed as u64);
    if unlisted > 0 {
        writeln!(io::stderr(), "and {unlisted} more")?;
    }
    Ok(())
}
