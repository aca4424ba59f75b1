//! The older form of the text, which every reader of Prometheus' understands: what counts is
//! declared under the name that its samples have, and the text has no mark of its end.

/// What the text is.
pub const MEDIA_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rewrites a text of OpenMetrics.
pub fn text(open: &str) -> String {
    let mut classic = String::with_capacity(open.len() + 1024);
    let mut lines = open.lines().peekable();
    // The help of a family comes right before or after its type, which says whether it counts.
    let mut family: Vec<&str> = Vec::new();
    while let Some(line) = lines.next() {
        let declares = line.starts_with("# HELP ") || line.starts_with("# TYPE ");
        if declares {
            family.push(line);
            if lines.peek().is_some_and(|next| name(next) == name(line)) {
                continue;
            }
            let counts = family.iter().any(|line| line.starts_with("# TYPE ") && line.ends_with(" counter"));
            for line in family.drain(..) {
                let mut words = line.splitn(4, ' ');
                for (place, word) in words.by_ref().enumerate() {
                    classic.push_str(if place == 0 { "" } else { " " });
                    classic.push_str(word);
                    if place == 2 && counts {
                        classic.push_str("_total");
                    }
                }
                classic.push('\n');
            }
        } else if !line.starts_with('#') {
            classic.push_str(line);
            classic.push('\n');
        }
    }
    classic
}

/// The name that a line declares something of.
fn name(line: &str) -> Option<&str> {
    line.starts_with("# ").then(|| line.split(' ').nth(2))?
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_are_declared_by_the_names_of_their_samples() {
        let open = "# HELP a Things.\n# TYPE a counter\na_total{x=\"1\"} 2\n# HELP b Bytes of it.\n# TYPE b gauge\n\
                    # UNIT b bytes\nb 1\n# EOF\n";
        let expected = "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n# HELP b Bytes of it.\n\
                        # TYPE b gauge\nb 1\n";
        assert_eq!(super::text(open), expected);
    }
}
