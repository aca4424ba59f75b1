//! The access log: one line for each request. A thread of its own writes it, so that it does not slow the serving
//! threads.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{iter, mem};

use hexad_support::log_throttle::LogThrottle;
use hexad_support::serving_threads::survive;
use http::header::{REFERER, USER_AGENT};
use http::{HeaderMap, Request, Version};
use jiff::{Timestamp, tz::TimeZone};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde_json::json;

use crate::metrics::Counter;
use crate::redaction;
use crate::request_id::X_REQUEST_ID;

const NAME: &str = "access-log";

/// Lines that may wait for the file. The host drops further ones, so that a slow disk does not slow the clients.
const MAX_WAITING: usize = 8192;

/// The most lines in one write.
const MAX_BATCH: usize = 256;

/// The longest value that a client chose, such as its `User-Agent`, in bytes.
const MAX_VALUE: usize = 1024;

/// The status for a client that has gone before its response began, as in nginx.
const CLIENT_GONE: u16 = 499;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum AccessLogFormat {
    /// A JSON object.
    #[default]
    Json,
    /// The combined format of Apache and nginx.
    Combined,
}

/// Writes the lines to a file, or to standard output.
#[derive(Debug)]
pub struct AccessLog {
    /// `None` once the log is closed.
    entries: RwLock<Option<SyncSender<AccessLogEntry>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    reopen: Arc<AtomicBool>,
    dropped: Arc<Counter>,
}

/// One request. Dropping it at the end of the response writes its line.
pub struct AccessRecord {
    log: Arc<AccessLog>,
    entry: AccessLogEntry,
    started: Instant,
}

#[derive(Debug, Default)]
struct AccessLogEntry {
    time: Timestamp,
    client: Option<IpAddr>,
    method: Vec<u8>,
    target: Vec<u8>,
    version: Version,
    status: u16,
    /// Bytes of the body that the client's connection has taken.
    bytes: u64,
    milliseconds: f64,
    /// Header values can contain any bytes.
    referer: Option<Vec<u8>>,
    user_agent: Option<Vec<u8>>,
    request_id: Option<Vec<u8>>,
}

impl AccessLog {
    /// Opens the file, or standard output for `-`.
    pub fn open(path: PathBuf, format: AccessLogFormat) -> io::Result<Arc<Self>> {
        let file = open(&path)?;
        let (entries, receiver) = sync_channel(MAX_WAITING);
        let (reopen, dropped): (Arc<AtomicBool>, Arc<Counter>) = Default::default();
        let mut writer = AccessLogWriter {
            path,
            format,
            file,
            reopen: reopen.clone(),
            dropped: dropped.clone(),
            reported: 0,
            failure: None,
            is_torn: false,
            log_throttle: LogThrottle::new(1, 3),
        };
        let thread = std::thread::Builder::new().name(NAME.to_owned());
        // A panic loses the lines that the thread had taken.
        let write = move || while survive(NAME, || writer.run(&receiver)).is_none() {};
        let thread = Mutex::new(Some(thread.spawn(write)?));
        Ok(Arc::new(Self { entries: RwLock::new(Some(entries)), thread, reopen, dropped }))
    }

    /// Lines that were not written: too many waited, the file was not writable, or the log was closed.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Opens the file again before the next line, because it was renamed.
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Waits until every line is written, for as long as a reader of the file takes. Requests that end later have no
    /// line.
    pub fn close(&self) {
        *self.entries.write().unwrap_or_else(PoisonError::into_inner) = None;
        // Locked meanwhile, so that concurrent callers wait too.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the access log panicked");
        }
    }

    /// Begins a request, which has its id already.
    pub fn begin<B>(self: &Arc<Self>, request: &Request<B>, client: Option<IpAddr>) -> AccessRecord {
        let entry = AccessLogEntry {
            time: Timestamp::now(),
            client,
            method: cut(request.method().as_str().into()),
            target: cut(redaction::target(request.uri()).into()),
            version: request.version(),
            status: CLIENT_GONE,
            bytes: 0,
            milliseconds: 0.0,
            // Redacted before it is cut, because the cut could remove the mark of a secret.
            referer: value(request.headers(), REFERER.as_str()).map(|value| cut(referer(value))),
            user_agent: value(request.headers(), USER_AGENT.as_str()).map(cut),
            request_id: value(request.headers(), X_REQUEST_ID.as_str()).map(cut),
        };
        AccessRecord { log: self.clone(), entry, started: Instant::now() }
    }
}

/// Waits until all lines are written.
impl Drop for AccessLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl AccessRecord {
    pub fn record_head(&mut self, status: u16, headers: &HeaderMap) {
        self.entry.status = status;
        self.entry.request_id = value(headers, X_REQUEST_ID.as_str()).map(cut);
    }

    pub fn record_bytes(&mut self, bytes: u64) {
        self.entry.bytes += bytes;
    }
}

impl Drop for AccessRecord {
    fn drop(&mut self) {
        self.entry.milliseconds = self.started.elapsed().as_secs_f64() * 1000.0;
        let entry = mem::take(&mut self.entry);
        let entries = self.log.entries.read().unwrap_or_else(PoisonError::into_inner);
        if entries.as_ref().is_none_or(|entries| entries.try_send(entry).is_err()) {
            self.log.dropped.add(1);
        }
    }
}

/// The state of the thread that writes.
struct AccessLogWriter {
    path: PathBuf,
    format: AccessLogFormat,
    file: Box<dyn Write + Send>,
    reopen: Arc<AtomicBool>,
    dropped: Arc<Counter>,
    /// How many dropped lines were logged.
    reported: u64,
    /// The last error of a write that is not logged yet.
    failure: Option<String>,
    /// Whether the file may end with a partial line.
    is_torn: bool,
    /// On a full disk, every write fails.
    log_throttle: LogThrottle,
}

impl AccessLogWriter {
    /// Returns once the log is closed and all lines are written.
    fn run(&mut self, entries: &Receiver<AccessLogEntry>) {
        while let Ok(first) = entries.recv() {
            if self.reopen.swap(false, Ordering::Relaxed) {
                match open(&self.path) {
                    Ok(file) => (self.file, self.is_torn) = (file, false),
                    Err(error) => tracing::error!(%error, "the access log cannot be opened again"),
                }
            }
            let batch = iter::once(first).chain(entries.try_iter()).take(MAX_BATCH);
            self.write(&batch.map(|entry| entry.line(self.format)).collect::<Vec<_>>());
            if self.dropped.get() > self.reported && self.log_throttle.pass().is_some() {
                self.report();
            }
        }
        if self.dropped.get() > self.reported {
            self.report();
        }
    }

    fn report(&mut self) {
        let lines = self.dropped.get() - self.reported;
        self.reported += lines;
        let reason = self.failure.take().unwrap_or_else(|| "the file is too slow".to_owned());
        tracing::error!(lines, reason, "lines of the access log were dropped");
    }

    fn write(&mut self, lines: &[String]) {
        let end_of_torn = if self.is_torn { "\n" } else { "" };
        let text = end_of_torn.to_owned() + &lines.concat();
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.flush());
        self.is_torn = written.is_err();
        if let Err(error) = written {
            self.dropped.add(lines.len() as u64);
            self.failure = Some(error.to_string());
        }
    }
}

fn open(path: &PathBuf) -> io::Result<Box<dyn Write + Send>> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdout()));
    }
    let mut options = OpenOptions::new();
    // Without the flag, opening a pipe waits for a reader.
    options.append(true).create(true).mode(0o600).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) => io::Error::new(error.kind(), "it is a pipe that no program reads"),
        _ => error,
    })?;
    // Writes do wait for a slow reader, but only on the log's own thread.
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(Box::new(file))
}

fn value(headers: &HeaderMap, name: &str) -> Option<Vec<u8>> {
    headers.get(name).map(|value| value.as_bytes().to_vec())
}

/// The `Referer` without its secrets, whose marks are all ASCII characters.
fn referer(value: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(value) {
        Ok(text) => redaction::url(&text).into(),
        Err(error) => {
            let characters: String = error.as_bytes().iter().copied().map(char::from).collect();
            redaction::url(&characters).chars().filter_map(|character| u8::try_from(character).ok()).collect()
        }
    }
}

/// Cuts a value to the logged length. Text is cut between two characters.
fn cut(mut value: Vec<u8>) -> Vec<u8> {
    if value.len() > MAX_VALUE {
        let end = str::from_utf8(&value).map_or(MAX_VALUE, |text| text.floor_char_boundary(MAX_VALUE));
        value.truncate(end);
    }
    value
}

impl AccessLogEntry {
    fn line(&self, format: AccessLogFormat) -> String {
        match format {
            AccessLogFormat::Json => {
                // JSON is text: bytes that are not UTF-8 become replacement characters.
                let text =
                    |value: &Option<Vec<u8>>| value.as_deref().map(|value| String::from_utf8_lossy(value).into_owned());
                let line = json!({
                    "time": self.time.to_string(),
                    "client": self.client.map(|client| client.to_string()),
                    "method": String::from_utf8_lossy(&self.method),
                    "target": String::from_utf8_lossy(&self.target),
                    "version": format!("{:?}", self.version),
                    "status": self.status,
                    "bytes": self.bytes,
                    "milliseconds": self.milliseconds,
                    "referer": text(&self.referer),
                    "user_agent": text(&self.user_agent),
                    "request_id": text(&self.request_id),
                });
                format!("{}\n", escape_controls(&line.to_string()))
            }
            AccessLogFormat::Combined => {
                let client = self.client.map_or_else(|| "-".to_owned(), |client| client.to_string());
                let time = self.time.to_zoned(TimeZone::UTC).strftime("%d/%b/%Y:%H:%M:%S %z");
                format!(
                    "{client} - - [{time}] \"{} {} {:?}\" {} {} \"{}\" \"{}\"\n",
                    Quoted(&self.method),
                    Quoted(&self.target),
                    self.version,
                    self.status,
                    self.bytes,
                    Quoted(self.referer.as_deref().unwrap_or(b"-")),
                    Quoted(self.user_agent.as_deref().unwrap_or(b"-")),
                )
            }
        }
    }
}

/// Bytes between quotation marks, escaped as in nginx, so that a client can forge neither a field nor a line.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| match byte {
            b' '..=b'~' if !b"\"\\".contains(byte) => f.write_char(char::from(*byte)),
            _ => write!(f, "\\x{byte:02X}"),
        })
    }
}

/// Escapes characters that JSON allows unescaped, but that end a line for other readers, change the direction of the
/// text, or control a terminal. In JSON, non-ASCII characters are in strings only.
fn escape_controls(json: &str) -> Cow<'_, str> {
    let is_control = |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !json.contains(is_control) {
        return json.into();
    }
    let escape = |escaped: String, c: char| match is_control(c) {
        true => escaped + &format!("\\u{:04x}", u32::from(c)),
        false => escaped + c.encode_utf8(&mut [0; 4]),
    };
    json.chars().fold(String::new(), escape).into()
}

#[cfg(test)]
mod tests;
