//! An answer of the engine, read over while it passes: where its object ends, which members it has
//! at the top, and how deep it goes. Nothing is kept of it, so it can be of any length.

use std::fmt;

/// How deep an answer may be nested, as in the reference service.
pub const MAX_DEPTH: u32 = 32;

/// The longest name that is told apart, `results`; longer ones are none of those looked for.
const NAME: usize = 7;

/// Why a text is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonError {
    NotAnObject,
    TooDeep,
    /// A bracket that closes nothing, or another one's.
    Unbalanced,
    /// Something after the end of the object.
    Trailing,
    /// A name at the top that is written with escapes: it could be any.
    EscapedName,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JsonError::NotAnObject => f.write_str("it is not a JSON object"),
            JsonError::TooDeep => write!(f, "it is nested deeper than {MAX_DEPTH} levels"),
            JsonError::Unbalanced => f.write_str("its brackets do not match"),
            JsonError::Trailing => f.write_str("something follows its end"),
            JsonError::EscapedName => f.write_str("a name in it is written with escapes"),
        }
    }
}

/// What is known of a text after some of its bytes.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    depth: u32,
    /// A bit for each open bracket, the innermost lowest: 1 for an object.
    kinds: u64,
    text: Text,
    /// Whether the next string at the top is a name.
    expects_name: bool,
    /// The name that is being read, and its length, which may be larger than what is kept.
    name: ([u8; NAME], usize),
    closed: bool,
    /// Whether the object has a member, whether `error` and `results` are among them.
    pub has_members: bool,
    pub has_error: bool,
    pub has_results: bool,
}

/// Where in a string the reader is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Value,
    /// A name at the top.
    Name,
    /// After a backslash in a value.
    Escape,
}

/// Where the first quote or backslash is. Eight bytes at a time, as long as none of them is one.
fn end_of_text(bytes: &[u8]) -> Option<usize> {
    let is_plain = |eight: &&[u8]| {
        let word = <[u8; 8]>::try_from(*eight).map_or(0, u64::from_le_bytes);
        // A byte of `word` that is `byte` is 0 in the difference; a 0 borrows from its highest bit.
        let has = |byte: u8| {
            let difference = word ^ u64::from_le_bytes([byte; 8]);
            difference.wrapping_sub(u64::from_le_bytes([1; 8])) & !difference & u64::from_le_bytes([0x80; 8]) != 0
        };
        !has(b'"') && !has(b'\\')
    };
    let plain = 8 * bytes.chunks_exact(8).take_while(is_plain).count();
    let rest = bytes.get(plain..)?;
    Some(plain + rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?)
}

impl Outline {
    /// Whether the object has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes the next bytes. Returns where among them the bracket is that closes the object, if it
    /// is.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Option<usize>, JsonError> {
        let (mut end, mut at) = (None, 0);
        // Most bytes tell nothing: they are passed over in loops of a single comparison.
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skipped = match self.text {
                Text::Value => end_of_text(rest),
                Text::Outside if self.depth > 1 => {
                    rest.iter().position(|byte| matches!(byte, b'"' | b'{' | b'}' | b'[' | b']'))
                }
                _ => Some(0),
            };
            let Some((skipped, byte)) = skipped.and_then(|skipped| Some((skipped, *rest.get(skipped)?))) else { break };
            at += skipped;
            match self.text {
                Text::Value if byte == b'"' => self.text = Text::Outside,
                Text::Value => self.text = Text::Escape,
                Text::Escape => self.text = Text::Value,
                Text::Name => self.read_name(byte)?,
                Text::Outside => self.read_outside(byte)?,
            }
            if self.closed && end.is_none() && byte == b'}' {
                end = Some(at);
            }
            at += 1;
        }
        Ok(end)
    }

    /// A byte that is not in a string.
    fn read_outside(&mut self, byte: u8) -> Result<(), JsonError> {
        match byte {
            b'"' if self.depth == 1 && self.expects_name => {
                (self.text, self.expects_name, self.name.1) = (Text::Name, false, 0);
            }
            b'"' if self.depth > 0 => self.text = Text::Value,
            b',' if self.depth == 1 => self.expects_name = true,
            b'{' | b'[' => self.open(byte)?,
            b'}' | b']' => self.close(byte)?,
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.depth > 0 => {}
            _ if self.closed => return Err(JsonError::Trailing),
            _ => return Err(JsonError::NotAnObject),
        }
        Ok(())
    }

    fn open(&mut self, byte: u8) -> Result<(), JsonError> {
        let is_object = byte == b'{';
        if self.depth == 0 {
            if self.closed {
                return Err(JsonError::Trailing);
            }
            if !is_object {
                return Err(JsonError::NotAnObject);
            }
            self.expects_name = true;
        }
        if self.depth == MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.depth += 1;
        self.kinds = self.kinds << 1 | u64::from(is_object);
        Ok(())
    }

    fn close(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.depth == 0 || (self.kinds & 1 == 1) != (byte == b'}') {
            return Err(if self.closed { JsonError::Trailing } else { JsonError::Unbalanced });
        }
        self.depth -= 1;
        self.kinds >>= 1;
        self.closed = self.depth == 0;
        Ok(())
    }

    fn read_name(&mut self, byte: u8) -> Result<(), JsonError> {
        let (name, length) = &mut self.name;
        match byte {
            b'\\' => return Err(JsonError::EscapedName),
            b'"' => {
                let name = name.get(..*length).unwrap_or_default();
                self.has_error |= name == b"error";
                self.has_results |= name == b"results";
                self.has_members = true;
                self.text = Text::Outside;
            }
            byte => {
                if let Some(place) = name.get_mut(*length) {
                    *place = byte;
                }
                *length += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome for a text that comes in parts of `size` bytes; `end` counts from the start.
    fn read(text: &str, size: usize) -> Result<(Outline, Option<usize>), JsonError> {
        let (mut outline, mut end) = (Outline::default(), None);
        for (part, bytes) in text.as_bytes().chunks(size).enumerate() {
            if let Some(at) = outline.push(bytes)? {
                end = Some(part * size + at);
            }
        }
        Ok((outline, end))
    }

    #[test]
    fn finds_members_and_the_end_however_the_text_is_cut() {
        let text = r#" {"query":{"error":"}"},"a\"":1} "#.replace(r#"a\""#, "long name");
        for size in 1..text.len() + 1 {
            let (outline, end) = read(&text, size).unwrap();
            assert_eq!((outline.has_error, outline.has_results, outline.has_members), (false, false, true), "{size}");
            assert_eq!(end, text.rfind('}'), "{size}");
        }
        let text = r#"{"x":"\\\"","error" : "y","results":[["error"]]}"#;
        for size in 1..text.len() + 1 {
            let (outline, end) = read(text, size).unwrap();
            assert!(outline.has_error && outline.has_results && outline.is_closed(), "{size}");
            assert_eq!(end, Some(text.len() - 1), "{size}");
        }
    }

    #[test]
    fn texts_end_at_a_quote_or_backslash_wherever_it_is() {
        for length in 0..40 {
            let plain = "\u{80}x\u{1}!#[]".repeat(8);
            let plain = plain.as_bytes().get(..length).unwrap();
            assert_eq!(end_of_text(plain), None, "{length}");
            for end in [b"\"\"", b"\\\""] {
                assert_eq!(end_of_text(&[plain, end, plain].concat()), Some(length), "{length}");
            }
        }
    }

    #[test]
    fn only_names_at_the_top_count() {
        for text in [
            r#"{"a":"error","b":["results","error"],"c":{"error":1}}"#,
            r#"{"errors":1,"resultsx":2,"erro":3,"result":4}"#,
            r#"{"a":["x",{"error":1},"error"]}"#,
        ] {
            let (outline, _) = read(text, 1000).unwrap();
            assert!(!outline.has_error && !outline.has_results, "{text}");
        }
        let (empty, end) = read("{ }", 1).unwrap();
        assert!(!empty.has_members && end == Some(2));
    }

    #[test]
    fn depth_has_a_bound() {
        let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        assert!(read(&nested(32), 7).unwrap().0.is_closed());
        assert_eq!(read(&nested(33), 7).unwrap_err(), JsonError::TooDeep);
        assert_eq!(read(&format!("{{\"x\":{}", "[".repeat(1_000_000)), 4096).unwrap_err(), JsonError::TooDeep);
    }

    #[test]
    fn what_is_no_object_is_a_fault() {
        for (text, fault) in [
            ("[]", JsonError::NotAnObject),
            ("null", JsonError::NotAnObject),
            ("\"x\"", JsonError::NotAnObject),
            ("<html>", JsonError::NotAnObject),
            ("\u{1f}\u{8b}", JsonError::NotAnObject),
            ("}", JsonError::Unbalanced),
            ("{\"x\":[}", JsonError::Unbalanced),
            ("{\"x\":{]", JsonError::Unbalanced),
            ("{} x", JsonError::Trailing),
            ("{}{}", JsonError::Trailing),
            ("{}}", JsonError::Trailing),
            ("{}\"", JsonError::Trailing),
            (r#"{"\u0065rror":1}"#, JsonError::EscapedName),
        ] {
            assert_eq!(read(text, 3).unwrap_err(), fault, "{text}");
        }
        assert!(!read("{\"x\":1", 3).unwrap().0.is_closed());
        assert!(!read("", 3).unwrap().0.is_closed());
    }
}
