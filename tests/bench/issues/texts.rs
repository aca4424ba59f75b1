//! Imports of texts that are not words into an empty store, in issues per second. The instance has the manifest's
//! memory limit, so an import that needs more fails here.

use crate::*;
use fastrand::Rng;
use std::fmt::Write as _;

const ISSUES: u64 = 40_000;

/// Han characters of a description: 1.4 KB.
const CHARACTERS: u64 = 467;

/// Lines of a log in a description, each with an address and a digest.
const LOG_LINES: u64 = 8;

pub fn measure() {
    println!("import of {ISSUES} issues of other texts:");
    row("Chinese, without spaces", |rng, text| {
        (0..CHARACTERS).for_each(|_| text.extend(char::from_u32(0x4e00 + rng.u32(..8000))));
    });
    row("logs with addresses and digests", |rng, text| {
        for _ in 0..LOG_LINES {
            let _ = write!(text, "at 0x{:012x} in {:016x}\\n", rng.u64(..) >> 16, rng.u64(..));
        }
    });
    row("pasted images, without spaces", |rng, text| {
        text.push_str("data:image/png;base64,");
        (0..40).for_each(|_| _ = write!(text, "{:016x}", rng.u64(..)));
    });
    println!();
}

/// `write` appends a description, escaped for JSON.
fn row(name: &str, write: impl Fn(&mut Rng, &mut String)) {
    let mut rng = Rng::with_seed(1);
    let mut lines = String::new();
    for id in 1..=ISSUES {
        let _ = write!(lines, r#"{{"kind":"issue","id":{id},"iid":{id},"project_id":1,"title":"{id}","description":""#);
        write(&mut rng, &mut lines);
        lines.push_str("\"}\n");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::start(folder.path());
    let bytes = lines.len() as f64;
    let started = Instant::now();
    let answer = patient_agent()
        .post(format!("{}/api/v4/import/issues", server.url))
        .header("private-token", BOOTSTRAP_TOKEN)
        .header("content-type", "application/x-ndjson")
        .send(lines.into_bytes())
        .and_then(|mut answer| answer.body_mut().read_to_string())
        .expect("an answer");
    let seconds = started.elapsed().as_secs_f64();
    assert!(answer.contains(&format!("\"issue\":{ISSUES}")), "{name}: {answer}");
    println!(
        "  {name:<34} {:>8.0} issues/s, {:>5.1} MB/s; the process had {} MiB at most",
        ISSUES as f64 / seconds,
        bytes / 1e6 / seconds,
        server.memory().1 >> 20
    );
}
