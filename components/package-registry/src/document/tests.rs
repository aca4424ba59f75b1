use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};

const LIMITS: Limits = Limits { envelope: 4096, file: 1000, depth: 8 };

#[derive(Default)]
struct Received(Vec<u8>);

impl Sink for Received {
    type Error = &'static str;

    fn write(&mut self, piece: &[u8]) -> Result<(), Self::Error> {
        if piece.starts_with(b"full") {
            return Err("disk full");
        }
        self.0.extend_from_slice(piece);
        Ok(())
    }
}

type Outcome = Result<(Envelope, Vec<u8>), DocumentReadError<&'static str>>;

/// Reads `text` in pieces of `size`.
fn read(text: &[u8], size: usize, limits: Limits) -> Outcome {
    let (mut document, mut received) = (DocumentReader::new(limits), Received::default());
    for piece in text.chunks(size) {
        document.feed(piece, &mut received)?;
    }
    Ok((document.finish(), received.0))
}

/// Reads `text` cut in every possible way, and asserts equal outcomes.
fn every_way(text: &str) -> Outcome {
    let whole = read(text.as_bytes(), text.len().max(1), LIMITS);
    for size in 1..text.len() {
        assert_eq!(read(text.as_bytes(), size, LIMITS), whole, "pieces of {size}: {text}");
    }
    whole
}

/// The file's name and bytes, and the envelope.
#[track_caller]
fn accepted(text: &str) -> (Option<String>, Vec<u8>, String) {
    let (envelope, received) = every_way(text).unwrap();
    if let Some(file) = &envelope.file {
        assert_eq!(file.length, received.len() as u64);
    }
    (envelope.file.map(|file| file.name), received, String::from_utf8(envelope.bytes).unwrap())
}

#[track_caller]
fn refused(text: &str) -> DocumentError {
    match every_way(text) {
        Err(DocumentReadError::Document(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_is_decoded_and_everything_else_is_kept() {
    let (file, bytes, envelope) = accepted(
        r#"{"name":"a","_attachments":{"a-1.0.0.tgz":{"content_type":"x","data":"aGVsbG8=","length":5}},"versions":{}}"#,
    );
    assert_eq!((file.as_deref(), &*bytes), (Some("a-1.0.0.tgz"), &b"hello"[..]));
    assert_eq!(
        envelope,
        r#"{"name":"a","_attachments":{"a-1.0.0.tgz":{"content_type":"x","data":"","length":5}},"versions":{}}"#
    );
}

#[test]
fn escapes_and_white_space_do_not_hide_the_file() {
    let text = "{ \"_attach\\u006dents\" :\n{ \"\\u0061.t\\u0067z\" : { \"d\\u0061ta\" :\t\"\\/\\u002BAA\\u002f\\u0077\\u003D=\" } } }";
    let (file, bytes, envelope) = accepted(text);
    assert_eq!((file.as_deref(), bytes), (Some("a.tgz"), STANDARD.decode("/+AA/w==").unwrap()));
    assert!(envelope.ends_with("\"d\\u0061ta\" :\t\"\" } } }"), "{envelope}");
}

#[test]
fn members_that_only_resemble_the_file_stay() {
    for text in [
        r#"{"_attachments":{"a.sigstore":{"data":"{\"x\":1}"}}}"#,
        r#"{"_attachments":[{"a.tgz":{"data":"no"}}]}"#,
        r#"{"_attachments":{"a.tgz":["data","no"]}}"#,
        r#"{"_attachments":{"a.tgz":{"data":null}}}"#,
        r#"{"_attachments":{"a.tgz":{"data":{"data":"no"}}}}"#,
        r#"{"_attachments":{"a.tgz":{"x":{"data":"no"}}}}"#,
        r#"{"versions":{"a.tgz":{"data":"no"}}}"#,
        r#"{"_attachments":{},"x":{"a.tgz":{"data":"no"}}}"#,
        r#"{"_attachments":{"a.tgz":{},"b":{"data":"no"}}}"#,
        r#"{"x":{"_attachments":{"a.tgz":{"data":"no"}}}}"#,
        r#"[{"_attachments":{"a.tgz":{"data":"no"}}}]"#,
        r#"["_attachments",{"a.tgz":{"data":"no"}}]"#,
        r#"{"a":"\"_attachments\":{\"a.tgz\":{\"data\":\"no\"}}"}"#,
        r#"{"_attachments\\":{"a.tgz":{"data":"no"}}}"#,
        "",
        "null",
    ] {
        let (file, bytes, envelope) = accepted(text);
        assert_eq!((file, bytes.len(), envelope.as_str()), (None, 0, text));
    }
}

#[test]
fn a_second_file_is_refused() {
    for text in [
        r#"{"_attachments":{"a.tgz":{"data":""},"b.tgz":{"data":""}}}"#,
        r#"{"_attachments":{"a.tgz":{"data":"AA==","data":"AA=="}}}"#,
        r#"{"_attachments":{"a.tgz":{"data":""}},"_attachments":{"b.tgz":{"data":""}}}"#,
    ] {
        assert!(matches!(refused(text), DocumentError::SecondFile(first, _) if first == "a.tgz"), "{text}");
    }
}

#[test]
fn data_that_is_not_base64_is_refused() {
    for data in
        ["A", "AA", "AAA", "AA=A", "AA==AA==", "AA AA", r"AA\nA", r"AA\u00e9", r"AA\u", r"AA\uzzzz", "AA\u{e9}A"]
    {
        let text = format!(r#"{{"_attachments":{{"a.tgz":{{"data":"{data}"}}}}}}"#);
        assert_eq!(refused(&text), DocumentError::Malformed("a.tgz".into()), "{data}");
    }
}

#[test]
fn every_limit_is_exact() {
    let document = |length: usize| {
        let data = STANDARD.encode(vec![1; length]);
        format!(r#"{{"_attachments":{{"a.tgz":{{"data":"{data}"}}}}}}"#)
    };
    assert!(every_way(&document(1000)).is_ok());
    assert_eq!(refused(&document(1001)), DocumentError::FileTooLarge("a.tgz".into(), 1000));

    let padded = |length: usize| format!("{}{{}}", " ".repeat(length - 2));
    assert!(read(padded(4096).as_bytes(), 100, LIMITS).is_ok());
    assert_eq!(
        read(padded(4097).as_bytes(), 100, LIMITS),
        Err(DocumentReadError::Document(DocumentError::EnvelopeTooLarge(4096)))
    );

    assert!(every_way(&format!("{}{}", "[".repeat(8), "]".repeat(8))).is_ok());
    assert_eq!(refused(&"[".repeat(9)), DocumentError::TooDeep(8));
    let deepest = Limits { depth: 1000, ..LIMITS };
    assert_eq!(
        read("{\"a\":".repeat(1000).as_bytes(), 7, deepest),
        Err(DocumentReadError::Document(DocumentError::TooDeep(64)))
    );
}

#[test]
fn a_full_sink_stops_the_reading() {
    let data = STANDARD.encode("full!!");
    let text = format!(r#"{{"_attachments":{{"a.tgz":{{"data":"{data}"}}}}}}"#);
    assert_eq!(read(text.as_bytes(), 1000, LIMITS), Err(DocumentReadError::Sink("disk full")));
}

#[test]
fn the_envelope_is_malformed_exactly_when_the_document_is() {
    let valid = r#"{"_attachments":{"a.tgz":{"data":"aGVsbG8=","length":5}},"n":[1,{"x":"y\"z"}]}"#;
    for at in 0..valid.len() {
        for change in ["", "\"", "{", "}", "[", "]", ":", ",", "\\", "x", "0", " "] {
            let mut text = valid.to_owned();
            text.replace_range(at..=at, change);
            let valid = serde_json::from_str::<Value>(&text).is_ok();
            match read(text.as_bytes(), 3, LIMITS) {
                Ok((envelope, _)) => {
                    assert_eq!(serde_json::from_slice::<Value>(&envelope.bytes).is_ok(), valid, "{text}");
                }
                Err(DocumentReadError::Document(DocumentError::Malformed(_))) => {}
                Err(other) => assert!(!valid, "{text}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_document_cut_off_anywhere_is_malformed() {
    let text = r#"{"_attachments":{"a.tgz":{"data":"aGVsbG8="}},"b":"c"}"#;
    for end in 0..text.len() {
        let (envelope, _) = read(&text.as_bytes()[..end], 5, LIMITS).unwrap();
        assert!(serde_json::from_slice::<Value>(&envelope.bytes).is_err(), "{end} bytes of {text}");
    }
}

fn random_name(rng: &mut Rng) -> String {
    let names = ["_attachments", "data", "a.tgz", "b.tgz", "x.sigstore", "a\"b", "\\", "é", "", "{", "versions"];
    rng.choice(names).unwrap().to_owned()
}

fn random_value(rng: &mut Rng, depth: u64) -> Value {
    match rng.u64(..if depth == 0 { 4 } else { 9 }) {
        0 => json!(rng.u64(..100)),
        1 => json!(random_name(rng)),
        2 | 3 => json!(STANDARD.encode(vec![9; rng.usize(..9)])),
        4 => json!([random_value(rng, depth - 1), random_value(rng, depth - 1)]),
        _ => (0..rng.u64(..5)).map(|_| (random_name(rng), random_value(rng, depth - 1))).collect(),
    }
}

fn random_attachments(rng: &mut Rng) -> Value {
    (0..rng.u64(..4))
        .map(|_| (random_name(rng), json!({"data": random_value(rng, 0), "length": random_value(rng, 1)})))
        .collect()
}

/// The attachment's name and bytes, by a parser that holds the whole document in memory.
fn reference(document: &mut Value) -> Result<Option<(String, Vec<u8>)>, ()> {
    let mut file = None;
    if let Some(attachments) = document.get_mut("_attachments").and_then(Value::as_object_mut) {
        for (name, attachment) in attachments {
            if !name.ends_with(".tgz") {
                continue;
            }
            if let Some(Value::String(data)) = attachment.as_object_mut().and_then(|a| a.get_mut("data")) {
                let bytes = STANDARD.decode(data.as_bytes()).map_err(drop)?;
                data.clear();
                if file.replace((name.clone(), bytes)).is_some() {
                    return Err(());
                }
            }
        }
    }
    Ok(file)
}

#[test]
fn the_reader_agrees_with_a_parser_of_whole_documents() {
    let mut rng = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    let (mut files, mut refusals) = (0, 0);
    for _ in 0..5_000 {
        let attachments = if rng.u64(..4) == 0 { random_value(&mut rng, 3) } else { random_attachments(&mut rng) };
        let mut document = json!({
            "before": random_value(&mut rng, 2), "_attachments": attachments, "z": random_value(&mut rng, 3)
        });
        let text = if rng.bool() {
            serde_json::to_string(&document).unwrap()
        } else {
            serde_json::to_string_pretty(&document).unwrap()
        };
        let size = rng.usize(1..=64);
        let outcome = read(text.as_bytes(), size, LIMITS);
        match reference(&mut document) {
            Ok(expected) => {
                let (envelope, received) = outcome.unwrap_or_else(|why| panic!("{text}: {why:?}"));
                assert_eq!(serde_json::from_slice::<Value>(&envelope.bytes).unwrap(), document, "{text}");
                files += usize::from(expected.is_some());
                let (name, bytes) = expected.map_or((None, Vec::new()), |(name, bytes)| (Some(name), bytes));
                assert_eq!((envelope.file.map(|file| file.name), received), (name, bytes), "{text}");
            }
            Err(()) => {
                refusals += 1;
                assert!(matches!(outcome, Err(DocumentReadError::Document(_))), "{text}");
            }
        }
    }
    assert!(files > 100 && refusals > 100, "{files} files, {refusals} refusals");
}
