//! Parameters with a value or a wildcard: none, any, and some others.

use kit::params::{Params, Validation};

/// A filter by one value, or by the presence of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueFilter<T> {
    None,
    Any,
    /// For iterations only: the current iteration.
    Current,
    Is(T),
}

impl ValueFilter<String> {
    /// The wildcards `none` and `any` in any letter case, or a value.
    pub fn text(text: &str) -> Self {
        match parse_wildcard(text) {
            Some(Wildcard::None) => ValueFilter::None,
            Some(Wildcard::Any) => ValueFilter::Any,
            None => ValueFilter::Is(text.to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MilestoneFilter {
    None,
    Any,
    Upcoming,
    Started,
    Title(String),
}

enum Wildcard {
    None,
    Any,
}

fn parse_wildcard(text: &str) -> Option<Wildcard> {
    match text {
        text if text.eq_ignore_ascii_case("none") => Some(Wildcard::None),
        text if text.eq_ignore_ascii_case("any") => Some(Wildcard::Any),
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
pub fn number(params: &Params, checks: &Validation, name: &str, outer: &str) -> Option<ValueFilter<i64>> {
    let text = params.text(name)?.trim();
    match parse_wildcard(text) {
        Some(Wildcard::None) => return Some(ValueFilter::None),
        Some(Wildcard::Any) => return Some(ValueFilter::Any),
        None => {}
    }
    let number = text.parse().ok().map(ValueFilter::Is);
    if number.is_none() {
        let name = full_name(outer, name);
        checks.reject(format!("{name} should be an integer, none, or any, however got {text}"));
    }
    number
}

/// An integer, `none`, `any` or `current`.
pub fn iteration(params: &Params, checks: &Validation, outer: &str) -> Option<ValueFilter<i64>> {
    match params.text("iteration_id") {
        Some(text) if text.trim().eq_ignore_ascii_case("current") => Some(ValueFilter::Current),
        _ => number(params, checks, "iteration_id", outer),
    }
}

const HEALTH: [&str; 3] = ["on_track", "needs_attention", "at_risk"];

pub fn health(params: &Params, checks: &Validation) -> Option<ValueFilter<String>> {
    match ValueFilter::text(&params.text("health_status")?.to_ascii_lowercase()) {
        ValueFilter::Is(status) if !HEALTH.contains(&status.as_str()) => {
            checks.reject("health_status does not have a valid value");
            None
        }
        filter => Some(filter),
    }
}

/// A wildcard in `milestone_id`, or a title or wildcard in `milestone`.
pub fn milestone(params: &Params, checks: &Validation, outer: &str) -> Option<MilestoneFilter> {
    let by_id = params.text("milestone_id").and_then(|text| {
        let filter = match text {
            "None" => Some(MilestoneFilter::None),
            "Any" => Some(MilestoneFilter::Any),
            "Upcoming" => Some(MilestoneFilter::Upcoming),
            "Started" => Some(MilestoneFilter::Started),
            _ => None,
        };
        if filter.is_none() {
            checks.reject(format!("{} does not have a valid value", full_name(outer, "milestone_id")));
        }
        filter
    });
    let by_title = || params.text("milestone").map(|title| milestone_by_title(title, outer.is_empty()));
    by_id.or_else(by_title)
}

/// In `not[milestone]`, `None` and `Any` are titles like others.
fn milestone_by_title(title: &str, accepts_wildcards: bool) -> MilestoneFilter {
    match title {
        "#upcoming" => MilestoneFilter::Upcoming,
        "#started" => MilestoneFilter::Started,
        "No Milestone" if accepts_wildcards => MilestoneFilter::None,
        "Any Milestone" if accepts_wildcards => MilestoneFilter::Any,
        title => match parse_wildcard(title).filter(|_| accepts_wildcards) {
            Some(Wildcard::None) => MilestoneFilter::None,
            Some(Wildcard::Any) => MilestoneFilter::Any,
            None => MilestoneFilter::Title(title.to_owned()),
        },
    }
}
