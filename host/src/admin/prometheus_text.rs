//! The Prometheus text format, which precedes OpenMetrics. A counter is declared under the name of its
//! samples, and the text has no end mark.

/// The media type of the text.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Converts an OpenMetrics text.
pub fn from_openmetrics(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + 1024);
    let mut lines = openmetrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF").peekable();
    // The declarations of one family, which are on consecutive lines. Its type is one of them.
    let mut family: Vec<[&str; 4]> = Vec::new();
    while let Some(line) = lines.next() {
        let Some(declared) = parse_declaration(line) else {
            text.push_str(line);
            text.push('\n');
            continue;
        };
        family.push(declared);
        let [_, _, name, _] = declared;
        if lines.peek().and_then(|next| parse_declaration(next)).is_some_and(|[_, _, next, _]| next == name) {
            continue;
        }
        let suffix =
            if family.iter().any(|[_, kind, _, value]| (*kind, *value) == ("TYPE", "counter")) { "_total" } else { "" };
        for [mark, kind, name, value] in family.drain(..) {
            text.push_str(&format!("{mark} {kind} {name}{suffix} {value}\n"));
        }
    }
    text
}

/// The parts of a declaration: `#`, its kind, the name of the family, the value.
fn parse_declaration(line: &str) -> Option<[&str; 4]> {
    let mut words = line.splitn(4, ' ');
    let parts = [words.next()?, words.next()?, words.next()?, words.next().unwrap_or_default()];
    (line.starts_with("# ")).then_some(parts)
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_are_declared_by_the_names_of_their_samples() {
        let openmetrics = "# HELP a Things.\n# TYPE a counter\na_total{x=\"1 2\"} 2\n# HELP b Bytes of it.\n# TYPE b gauge\n\
                    # UNIT b bytes\nb 1\n# EOF\n";
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1 2\"} 2\n# HELP b Bytes of it.\n\
                        # TYPE b gauge\nb 1\n";
        assert_eq!(super::from_openmetrics(openmetrics), expected);
    }
}
