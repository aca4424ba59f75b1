//! The tokens of a search text. The text may begin and end inside a run, so its first and its last token are parts of
//! terms. The length of these runs is unknown; a [long](crate::text::Run::is_long) run has other tokens. So a text may
//! have several tokenizations.

use super::term_search::MatchKind;
use crate::text::{self, Analyzer, BIGRAM_PREFIX, Run, RunKind};

pub struct QueryToken {
    pub text: String,
    pub kind: MatchKind,
}

/// Consecutive tokens.
pub type Tokenization = Vec<QueryToken>;

/// Every sequence of tokens that a document with the folded `text` may have. `text` has no white space at its ends.
pub fn tokenizations(text: &str, analyzer: Analyzer) -> Vec<Tokenization> {
    if analyzer == Analyzer::Words {
        let mut words = Vec::new();
        text::tokens(text, analyzer, |word| words.push(word.to_owned()));
        let last = words.len().saturating_sub(1);
        let token = |(index, text)| QueryToken { text, kind: kind_of(index == 0, index == last) };
        return vec![words.into_iter().enumerate().map(token).collect()];
    }
    let runs: Vec<Run> = text::runs(text).collect();
    let mut all = Vec::new();
    for is_first_long in lengths(runs.first()) {
        // The only run is the first and the last.
        let last = if runs.len() > 1 { lengths(runs.last()) } else { &[false] };
        all.extend(last.iter().map(|is_last_long| tokenization(&runs, *is_first_long, *is_last_long)));
    }
    all
}

/// The possible values for whether the run around `part` is long.
fn lengths(part: Option<&Run>) -> &'static [bool] {
    match part {
        Some(part) if part.is_long() => &[true],
        Some(Run { kind: RunKind::Word, .. }) => &[false, true],
        _ => &[false],
    }
}

fn kind_of(is_first: bool, is_last: bool) -> MatchKind {
    match (is_first, is_last) {
        (true, true) => MatchKind::Contains,
        (true, false) => MatchKind::EndsWith,
        (false, true) => MatchKind::StartsWith,
        (false, false) => MatchKind::Equals,
    }
}

fn tokenization(runs: &[Run], is_first_long: bool, is_last_long: bool) -> Tokenization {
    let last = runs.len().saturating_sub(1);
    let is_long = |index: usize| {
        (index == 0 && is_first_long)
            || (index == last && is_last_long)
            || runs.get(index).is_some_and(|run| run.is_long())
    };
    let is_short_word = |index: usize| runs.get(index).is_none_or(|run| run.kind == RunKind::Word && !is_long(index));
    let mut tokens = Tokenization::new();
    for (index, run) in runs.iter().enumerate() {
        let mut push = |text: &str, kind| tokens.push(QueryToken { text: text.to_owned(), kind });
        if is_long(index) {
            if index == last && run.text.chars().nth(1).is_none() {
                push(&[BIGRAM_PREFIX, run.text].concat(), MatchKind::StartsWith);
            } else {
                text::bigrams(run.text, index != last, |bigram| push(bigram, MatchKind::Equals));
            }
        } else if run.text != " " || !index.checked_sub(1).is_none_or(is_short_word) || !is_short_word(index + 1) {
            let is_word = run.kind == RunKind::Word;
            push(run.text, if is_word { kind_of(index == 0, index == last) } else { MatchKind::Equals });
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let token = |token: &QueryToken| match token.kind {
            MatchKind::Contains => format!("*{}*", token.text),
            MatchKind::StartsWith => format!("{}*", token.text),
            MatchKind::EndsWith => format!("*{}", token.text),
            MatchKind::Equals => token.text.clone(),
        };
        let tokenization = |tokenization: &Tokenization| tokenization.iter().map(token).collect::<Vec<_>>().join("|");
        tokenizations(text, Analyzer::Runs).iter().map(tokenization).collect()
    }

    #[test]
    fn a_text_may_be_in_short_and_in_long_runs() {
        assert_eq!(shown("abc"), ["*abc*", " +ab| +bc"]);
        assert_eq!(shown("a"), ["*a*", " +a*"]);
        let expected = ["*ab|c*", "*ab| | +c*", " +ab| +b| |c*", " +ab| +b| | +c*"];
        assert_eq!(shown("ab c"), expected, "beside bigrams a single space is a token");
        assert_eq!(shown("a  b c").first().unwrap(), "*a|  |b|c*");
        assert_eq!(shown("日本"), ["日|本"]);
        assert_eq!(shown("a日"), ["*a|日", " +a|日"]);
        assert_eq!(shown("日 b"), ["日| |b*", "日| | +b*"]);
        assert_eq!(shown(&"x".repeat(200)).len(), 1);
        assert_eq!(shown("").len(), 1);
    }

    #[test]
    fn words_have_one_tokenization() {
        let all = tokenizations("b 日本 c", Analyzer::Words);
        assert_eq!(all.len(), 1);
        let expected = [MatchKind::Equals, MatchKind::StartsWith];
        assert_eq!(all[0].iter().map(|token| token.kind).collect::<Vec<_>>()[1..], expected);
    }
}
