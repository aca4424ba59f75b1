//! The document that a client sends to publish or to change a package, read as a stream.
//!
//! The document carries the package's file as a base64 string and may be hundreds of megabytes long, with its parts in
//! any order. So it is scanned while it arrives: the file is decoded into a [`Sink`]. Everything else is copied into a
//! bounded *envelope*, where the file's string is empty. The scanner only distinguishes strings from structure. It does
//! not check the grammar: the envelope is malformed exactly if the document is, and [`crate::submission`] parses it.

use crate::base64_decoder::{self, Base64Decoder, Sink};
use std::fmt;

/// How much a document may hold.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of the document without the file.
    pub envelope: usize,
    /// Bytes of the file, decoded.
    pub file: u64,
    /// Levels of nested objects and arrays, at most 64.
    pub depth: u32,
}

/// Why the scanner refuses a document.
#[derive(Debug, PartialEq, Eq)]
pub enum DocumentError {
    /// The limit in bytes.
    EnvelopeTooLarge(usize),
    /// The limit in levels.
    TooDeep(u32),
    /// The attachment whose data is not base64.
    Malformed(String),
    /// The attachment that is too large, and the limit in bytes.
    FileTooLarge(String, u64),
    /// The first file, and the second.
    SecondFile(String, String),
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            DocumentError::EnvelopeTooLarge(limit) => {
                write!(f, "the document without its attachment is larger than {limit} bytes")
            }
            DocumentError::TooDeep(limit) => write!(f, "the document is nested deeper than {limit} levels"),
            DocumentError::Malformed(file) => write!(f, "the data of attachment `{file}` is not base64"),
            DocumentError::FileTooLarge(file, limit) => {
                write!(f, "attachment `{file}` is larger than {limit} bytes")
            }
            DocumentError::SecondFile(first, second) => {
                write!(f, "attachment `{second}` comes in addition to `{first}`; one is allowed")
            }
        }
    }
}

/// Why a document was not read to its end: its own error, or the sink's.
#[derive(Debug, PartialEq, Eq)]
pub enum DocumentReadError<E> {
    Document(DocumentError),
    Sink(E),
}

impl<E> From<DocumentError> for DocumentReadError<E> {
    fn from(error: DocumentError) -> Self {
        DocumentReadError::Document(error)
    }
}

/// A document without its file, not yet known to be JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct Envelope {
    pub bytes: Vec<u8>,
    pub file: Option<File>,
}

/// The file that was decoded into the sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in `_attachments`.
    pub name: String,
    /// Bytes, decoded.
    pub length: u64,
}

/// Scans a document piece by piece.
pub struct DocumentReader {
    limits: Limits,
    envelope: Vec<u8>,
    state: ScanState,
    /// One bit for each open object (1) or array (0), the innermost in the lowest bit.
    nesting: u64,
    depth: u32,
    /// The last structural character was a colon: the next string is a value, not a name.
    value: bool,
    /// How many names of the path `_attachments`, `*.tgz`, `data` match at this point.
    matched: u32,
    /// The attachment on that path.
    attachment: String,
    decoder: Option<Base64Decoder>,
    file: Option<File>,
}

#[derive(Debug, Clone, Copy)]
enum ScanState {
    /// Between strings.
    Structure,
    /// In a string that is copied. `name`: where it starts in the envelope, if it names a member.
    Text { name: Option<usize>, escaped: bool },
    /// In the string that is decoded.
    Data(Escape),
}

#[derive(Debug, Clone, Copy)]
enum Escape {
    No,
    Backslash,
    /// Hexadecimal digits seen after `\u`, and their value.
    Unicode(u32, u32),
}

impl DocumentReader {
    pub fn new(limits: Limits) -> Self {
        DocumentReader {
            limits: Limits { depth: limits.depth.min(u64::BITS), ..limits },
            envelope: Vec::new(),
            state: ScanState::Structure,
            nesting: 0,
            depth: 0,
            value: false,
            matched: 0,
            attachment: String::new(),
            decoder: None,
            file: None,
        }
    }

    /// Scans the next piece. Pieces may be cut anywhere.
    pub fn feed<S: Sink>(&mut self, mut input: &[u8], sink: &mut S) -> Result<(), DocumentReadError<S::Error>> {
        while !input.is_empty() {
            let used = match self.state {
                ScanState::Structure => self.scan_structure(input, sink)?,
                ScanState::Text { name, escaped } => self.scan_text(input, name, escaped)?,
                ScanState::Data(escape) => self.scan_data(input, escape, sink)?,
            };
            input = input.get(used..).unwrap_or_default();
        }
        Ok(())
    }

    /// The end of the document.
    pub fn finish(self) -> Envelope {
        Envelope { bytes: self.envelope, file: self.file }
    }

    fn scan_structure<S: Sink>(&mut self, input: &[u8], sink: &mut S) -> Result<usize, DocumentError> {
        for (at, byte) in input.iter().enumerate() {
            match byte {
                b'{' | b'[' => {
                    if self.depth == self.limits.depth {
                        return Err(DocumentError::TooDeep(self.limits.depth));
                    }
                    self.depth += 1;
                    self.nesting = self.nesting << 1 | u64::from(*byte == b'{');
                    self.value = false;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.nesting >>= 1;
                }
                b':' => self.value = true,
                b',' => self.value = false,
                b'"' => {
                    let (string, _) = input.split_at(at + 1);
                    self.copy(string)?;
                    self.start_string(sink)?;
                    return Ok(at + 1);
                }
                _ => {}
            }
        }
        self.copy(input)?;
        Ok(input.len())
    }

    fn start_string<S: Sink>(&mut self, sink: &mut S) -> Result<(), DocumentError> {
        let in_object = self.nesting & 1 == 1;
        self.state = if in_object && self.value && self.depth == 3 && self.matched == 3 {
            if let Some(first) = &self.file {
                return Err(DocumentError::SecondFile(first.name.clone(), self.attachment.clone()));
            }
            self.file = Some(File { name: self.attachment.clone(), length: 0 });
            self.decoder = Some(Base64Decoder::new(self.limits.file));
            sink.begin(&self.envelope);
            ScanState::Data(Escape::No)
        } else {
            let name = (in_object && !self.value).then(|| self.envelope.len() - 1);
            ScanState::Text { name, escaped: false }
        };
        Ok(())
    }

    fn scan_text(&mut self, input: &[u8], name: Option<usize>, escaped: bool) -> Result<usize, DocumentError> {
        let end = if escaped { Some(0) } else { memchr::memchr2(b'"', b'\\', input) };
        let used = end.map_or(input.len(), |end| end + 1);
        let (piece, _) = input.split_at(used);
        self.copy(piece)?;
        match piece.last() {
            _ if escaped => self.state = ScanState::Text { name, escaped: false },
            Some(b'\\') => self.state = ScanState::Text { name, escaped: true },
            Some(b'"') => {
                self.state = ScanState::Structure;
                if let Some(start) = name {
                    self.end_name(start);
                }
            }
            _ => {}
        }
        Ok(used)
    }

    /// A member's name is complete; it starts at `start` in the envelope.
    fn end_name(&mut self, start: usize) {
        if self.depth > 3 {
            return;
        }
        self.matched = self.matched.min(self.depth - 1);
        if self.matched + 1 < self.depth {
            return;
        }
        let literal = self.envelope.get(start..).unwrap_or_default();
        let Ok(name) = serde_json::from_slice::<String>(literal) else {
            return; // the parser of the envelope reports it
        };
        match self.depth {
            1 if name == "_attachments" => self.matched = 1,
            2 if name.ends_with(".tgz") => {
                self.matched = 2;
                self.attachment = name;
            }
            3 if name == "data" => self.matched = 3,
            _ => {}
        }
    }

    fn scan_data<S: Sink>(
        &mut self,
        input: &[u8],
        escape: Escape,
        sink: &mut S,
    ) -> Result<usize, DocumentReadError<S::Error>> {
        let Escape::No = escape else {
            let Some(byte) = input.first() else { return Ok(0) };
            self.state = match unescape(escape, *byte) {
                Some(Unescaped::More(escape)) => ScanState::Data(escape),
                Some(Unescaped::Byte(byte)) => {
                    self.decode(&[byte], sink)?;
                    ScanState::Data(Escape::No)
                }
                None => return Err(DocumentError::Malformed(self.attachment.clone()).into()),
            };
            return Ok(1);
        };
        let Some(end) = memchr::memchr2(b'"', b'\\', input) else {
            self.decode(input, sink)?;
            return Ok(input.len());
        };
        let (piece, rest) = input.split_at(end);
        self.decode(piece, sink)?;
        if rest.first() == Some(&b'\\') {
            self.state = ScanState::Data(Escape::Backslash);
        } else {
            self.end_data()?;
        }
        Ok(end + 1)
    }

    fn decode<S: Sink>(&mut self, text: &[u8], sink: &mut S) -> Result<(), DocumentReadError<S::Error>> {
        let Some(decoder) = &mut self.decoder else { return Ok(()) };
        decoder.push(text, sink).map_err(|error| match error {
            base64_decoder::DecodeError::Sink(why) => DocumentReadError::Sink(why),
            base64_decoder::DecodeError::Malformed => DocumentError::Malformed(self.attachment.clone()).into(),
            base64_decoder::DecodeError::TooLarge => {
                DocumentError::FileTooLarge(self.attachment.clone(), self.limits.file).into()
            }
        })
    }

    fn end_data(&mut self) -> Result<(), DocumentError> {
        if let (Some(decoder), Some(file)) = (self.decoder.take(), &mut self.file) {
            file.length = decoder.finish::<()>().map_err(|_| DocumentError::Malformed(file.name.clone()))?;
        }
        self.state = ScanState::Structure;
        self.copy(b"\"")
    }

    fn copy(&mut self, piece: &[u8]) -> Result<(), DocumentError> {
        if piece.len() > self.limits.envelope - self.envelope.len() {
            return Err(DocumentError::EnvelopeTooLarge(self.limits.envelope));
        }
        self.envelope.extend_from_slice(piece);
        Ok(())
    }
}

enum Unescaped {
    More(Escape),
    Byte(u8),
}

/// The next character of an escape in base64 text, which can only stand for ASCII.
fn unescape(escape: Escape, byte: u8) -> Option<Unescaped> {
    match (escape, byte) {
        (Escape::Backslash, b'/') => Some(Unescaped::Byte(b'/')),
        (Escape::Backslash, b'u') => Some(Unescaped::More(Escape::Unicode(0, 0))),
        (Escape::Unicode(digits, value), _) => {
            let value = value << 4 | char::from(byte).to_digit(16)?;
            match digits {
                3 => u8::try_from(value).ok().map(Unescaped::Byte),
                _ => Some(Unescaped::More(Escape::Unicode(digits + 1, value))),
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
