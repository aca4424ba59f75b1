//! `hexad import`: sends a file of records to the areas that own them.

mod split;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use ureq::SendBody;

use super::server::{Server, printable};
use super::{Failure, counted};
use split::{Extract, OWNERS, Owner, Part};

/// How much of the file is read at a time, in bytes.
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

/// What an area answers.
#[derive(Deserialize)]
struct Report {
    imported: BTreeMap<String, u64>,
    failed: u64,
    errors: Vec<BadLine>,
}

#[derive(Deserialize)]
struct BadLine {
    /// Among those that were sent, from 1.
    line: u64,
    error: String,
}

impl Import {
    pub fn run(self) -> Result<(), Failure> {
        let file = open(&self.file)?;
        let size = file.metadata()?.len();

        let bar = bar("reading", size);
        let survey = split::survey(BufReader::with_capacity(BUFFER, &file), |bytes| bar.set_position(bytes))?;
        bar.finish_and_clear();
        for (number, misfit) in &survey.first_misfits {
            eprintln!("line {number}: {}", printable(&misfit.to_string()));
        }
        more(survey.misfits, survey.first_misfits.len());

        let mut failed = survey.misfits;
        let mut lines = survey.misfits;
        for (index, (owner, part)) in OWNERS.iter().zip(&survey.parts).enumerate() {
            if part.lines > 0 {
                lines += part.lines;
                failed += self.send(&file, index, owner, part)?;
            }
        }
        match failed {
            0 => Ok(()),
            failed => Err(format!("{failed} of {lines} records were not imported, as told above").into()),
        }
    }

    /// Sends one owner's lines and tells what became of them; the number of bad ones.
    fn send(&self, file: &File, index: usize, owner: &Owner, part: &Part) -> Result<u64, Failure> {
        let started = Instant::now();
        let bar = bar(owner.area, part.bytes);
        let mut body = bar.wrap_read(extract(file, index, part)?);
        let sent = self.server.post(owner.path, "application/x-ndjson", SendBody::from_reader(&mut body));
        bar.finish_and_clear();
        let mut report: Report = sent?;

        report.errors.sort_by_key(|bad| bad.line);
        let wanted: Vec<u64> = report.errors.iter().map(|bad| bad.line).collect();
        let numbers = extract(file, index, part)?.numbers(&wanted)?;
        for (number, bad) in numbers.iter().zip(&report.errors) {
            eprintln!("line {number}: {}", printable(&bad.error));
        }
        more(report.failed, report.errors.len());

        let kinds: Vec<String> = report.imported.iter().map(|(kind, count)| counted(*count, kind)).collect();
        let imported = if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(", ") };
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stdout(), "{}: {imported} in {seconds:.1} s", owner.area)?;
        Ok(report.failed)
    }
}

/// The file, or a temporary one with what comes from a pipe: records are read more than once.
fn open(path: &Path) -> Result<File, Failure> {
    let mut pipe: Box<dyn io::Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))?;
        if file.metadata()?.is_file() {
            return Ok(file);
        }
        Box::new(file)
    };
    let mut copy =
        tempfile::tempfile().map_err(|error| format!("cannot make a temporary file: {error}; set TMPDIR"))?;
    io::copy(&mut pipe, &mut copy).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    copy.rewind()?;
    Ok(copy)
}

/// The lines of one owner, read from where they begin.
fn extract<'a>(mut file: &'a File, index: usize, part: &Part) -> io::Result<Extract<BufReader<&'a File>>> {
    file.seek(SeekFrom::Start(part.start))?;
    Ok(Extract::new(BufReader::with_capacity(BUFFER, file), index, part))
}

/// Says how many bad lines were not listed.
fn more(failed: u64, listed: usize) {
    let more = failed.saturating_sub(listed as u64);
    if more > 0 {
        eprintln!("and {more} more");
    }
}

/// A bar on a terminal, and nothing elsewhere.
fn bar(what: &'static str, bytes: u64) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "{prefix} [{wide_bar}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(bytes).with_style(style.progress_chars("=> ")).with_prefix(what)
}
