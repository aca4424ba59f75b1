//! Patterns in which `*` stands for any text, for protected branches and protected packages.

/// Whether `pattern` matches all of `text`. Letter case matters.
pub fn matches(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(mut text) = text.strip_prefix(start).and_then(|text| text.strip_suffix(end)) else { return false };
    // The first occurrence of each part is the best: it leaves the most text for the following parts.
    middle.split('*').all(|part| match text.split_once(part) {
        Some((_, after)) => {
            text = after;
            true
        }
        None => false,
    })
}
