//! The older form of the text, which every reader of Prometheus' understands: what counts is
//! declared under the name that its samples have, and the text has no mark of its end.

/// What the text is.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rewrites a text of OpenMetrics.
pub fn text(open: &str) -> String {
    let mut classic = String::with_capacity(open.len() + 1024);
    let mut lines = open.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF").peekable();
    // What is declared of one family, one line after the other; its type says whether it counts.
    let mut family: Vec<[&str; 4]> = Vec::new();
    while let Some(line) = lines.next() {
        let Some(declared) = declaration(line) else {
            classic.push_str(line);
            classic.push('\n');
            continue;
        };
        family.push(declared);
        let [_, _, name, _] = declared;
        if lines.peek().and_then(|next| declaration(next)).is_some_and(|[_, _, next, _]| next == name) {
            continue;
        }
        let end =
            if family.iter().any(|[_, what, _, text]| (*what, *text) == ("TYPE", "counter")) { "_total" } else { "" };
        for [mark, what, name, text] in family.drain(..) {
            classic.push_str(&format!("{mark} {what} {name}{end} {text}\n"));
        }
    }
    classic
}

/// The parts of a line that declares something: `#`, what, the family's name, the text.
fn declaration(line: &str) -> Option<[&str; 4]> {
    let mut words = line.splitn(4, ' ');
    let parts = [words.next()?, words.next()?, words.next()?, words.next().unwrap_or_default()];
    (line.starts_with("# ")).then_some(parts)
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_are_declared_by_the_names_of_their_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\na_total{x=\"1 2\"} 2\n# HELP b Bytes of it.\n# TYPE b gauge\n\
                    # UNIT b bytes\nb 1\n# EOF\n";
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1 2\"} 2\n# HELP b Bytes of it.\n\
                        # TYPE b gauge\nb 1\n";
        assert_eq!(super::text(open), expected);
    }
}
