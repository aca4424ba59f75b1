//! Texts for the terminal.

/// `1 user`, `2 users`: a count and its noun.
pub fn counted(count: u64, noun: &str) -> String {
    let noun = noun.replace('_', " ");
    match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_have_their_number() {
        let texts = [(0, "user"), (1, "merge_request"), (2, "merge_request")].map(|(count, noun)| counted(count, noun));
        assert_eq!(texts, ["0 users", "1 merge request", "2 merge requests"]);
    }
}
