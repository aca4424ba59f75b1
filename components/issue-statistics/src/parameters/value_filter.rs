//! Values that are something, or say that there is none or any.

use kit::params::{Params, Validation};

/// A value, or whether there is one at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<T> {
    None,
    Any,
    /// Of iterations: the one that is going on.
    Current,
    Is(T),
}

impl Choice<String> {
    /// `None` and `Any` in any letter case; else the text itself.
    pub fn text(text: &str) -> Self {
        match word(text) {
            Some(Word::None) => Choice::None,
            Some(Word::Any) => Choice::Any,
            None => Choice::Is(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Milestone {
    None,
    Any,
    Upcoming,
    Started,
    Title(String),
}

enum Word {
    None,
    Any,
}

fn word(text: &str) -> Option<Word> {
    match text {
        text if text.eq_ignore_ascii_case("none") => Some(Word::None),
        text if text.eq_ignore_ascii_case("any") => Some(Word::Any),
        _ => None,
    }
}

/// `name`, or `outer[name]`.
pub fn full_name(outer: &str, name: &str) -> String {
    if outer.is_empty() { name.to_owned() } else { format!("{outer}[{name}]") }
}

pub fn integer(params: &Params, checks: &Validation, name: &str, outer: &str) -> Option<i64> {
    let number = params.text(name)?.trim().parse().ok();
    if number.is_none() {
        checks.reject(format!("{} is invalid", full_name(outer, name)));
    }
    number
}

/// An integer, `none` or `any`.
pub fn number(params: &Params, checks: &Validation, name: &str, outer: &str) -> Option<Choice<i64>> {
    let text = params.text(name)?.trim();
    match word(text) {
        Some(Word::None) => return Some(Choice::None),
        Some(Word::Any) => return Some(Choice::Any),
        None => {}
    }
    let number = text.parse().ok().map(Choice::Is);
    if number.is_none() {
        let name = full_name(outer, name);
        checks.reject(format!("{name} should be an integer, none, or any, however got {text}"));
    }
    number
}

/// An integer, `none`, `any` or `current`.
pub fn iteration(params: &Params, checks: &Validation, outer: &str) -> Option<Choice<i64>> {
    match params.text("iteration_id") {
        Some(text) if text.trim().eq_ignore_ascii_case("current") => Some(Choice::Current),
        _ => number(params, checks, "iteration_id", outer),
    }
}

const HEALTH: [&str; 3] = ["on_track", "needs_attention", "at_risk"];

pub fn health(params: &Params, checks: &Validation) -> Option<Choice<String>> {
    match Choice::text(&params.text("health_status")?.to_ascii_lowercase()) {
        Choice::Is(status) if !HEALTH.contains(&status.as_str()) => {
            checks.reject("health_status does not have a valid value");
            None
        }
        known => Some(known),
    }
}

/// By a word of `milestone_id`, or by title or one of its words of `milestone`.
pub fn milestone(params: &Params, checks: &Validation, outer: &str) -> Option<Milestone> {
    let by_id = params.text("milestone_id").and_then(|text| {
        let known = match text {
            "None" => Some(Milestone::None),
            "Any" => Some(Milestone::Any),
            "Upcoming" => Some(Milestone::Upcoming),
            "Started" => Some(Milestone::Started),
            _ => None,
        };
        if known.is_none() {
            checks.reject(format!("{} does not have a valid value", full_name(outer, "milestone_id")));
        }
        known
    });
    let by_title = || params.text("milestone").map(|title| named(title, outer.is_empty()));
    by_id.or_else(by_title)
}

/// `None` and `Any` are titles like others where the filter is negated.
fn named(title: &str, has_words: bool) -> Milestone {
    match title {
        "#upcoming" => Milestone::Upcoming,
        "#started" => Milestone::Started,
        "No Milestone" if has_words => Milestone::None,
        "Any Milestone" if has_words => Milestone::Any,
        title => match word(title).filter(|_| has_words) {
            Some(Word::None) => Milestone::None,
            Some(Word::Any) => Milestone::Any,
            None => Milestone::Title(title.to_owned()),
        },
    }
}
