//! The filters and the order of lists of personal tokens.

use directory::token::PersonalToken;
use kit::Timestamp;
use kit::params::Validation;

/// The validated parameters of a list. All bounds are exclusive.
#[derive(Debug, Default)]
pub struct TokenFilter {
    pub user_id: Option<i64>,
    active: Option<bool>,
    revoked: Option<bool>,
    created: TimeRange,
    last_used: TimeRange,
    expires: TimeRange,
    /// A part of the name, in lower case.
    search: Option<String>,
    /// The sort field, and whether the order is descending.
    order: Option<(&'static str, bool)>,
}

#[derive(Debug, Default)]
struct TimeRange {
    after: Option<Timestamp>,
    before: Option<Timestamp>,
}

impl TimeRange {
    fn read(checks: &Validation, after: &str, before: &str) -> Self {
        TimeRange { after: checks.datetime(after), before: checks.datetime(before) }
    }

    fn is_open(&self) -> bool {
        self.after.is_none() && self.before.is_none()
    }

    fn contains(&self, moment: Option<Timestamp>) -> bool {
        moment.map_or(self.is_open(), |moment| {
            self.after.is_none_or(|after| moment > after) && self.before.is_none_or(|before| moment < before)
        })
    }
}

impl TokenFilter {
    /// The names of its parameters, for the links to other pages.
    pub const PARAMETERS: [&str; 12] = [
        "created_after",
        "created_before",
        "expires_after",
        "expires_before",
        "last_used_after",
        "last_used_before",
        "pagination",
        "revoked",
        "search",
        "sort",
        "state",
        "user_id",
    ];

    pub fn check(checks: &Validation) -> Self {
        let order = checks.text("sort").map(parse_order);
        if order == Some(None) {
            checks.reject("sort does not have a valid value");
        }
        TokenFilter {
            user_id: checks.integer("user_id"),
            active: checks.one_of("state", &["active", "inactive"]).map(|state| state == "active"),
            revoked: checks.boolean("revoked"),
            created: TimeRange::read(checks, "created_after", "created_before"),
            last_used: TimeRange::read(checks, "last_used_after", "last_used_before"),
            expires: TimeRange::read(checks, "expires_after", "expires_before"),
            search: checks.text("search").map(str::to_lowercase),
            order: order.flatten(),
        }
    }

    /// Whether the list is sorted by id.
    pub fn is_by_id(&self) -> bool {
        self.order.is_none_or(|(field, _)| field == "id")
    }

    /// Whether the list begins with the highest id.
    pub fn is_by_descending_id(&self) -> bool {
        self.order == Some(("id", true))
    }

    /// Whether the filter or the order needs the last use of a token.
    pub fn needs_last_use(&self) -> bool {
        !self.last_used.is_open() || self.order.is_some_and(|(field, _)| field == "last_used")
    }

    /// Sorts tokens, which must be sorted by ascending id.
    pub fn sort(&self, tokens: &mut [PersonalToken]) {
        let Some((field, is_descending)) = self.order else { return };
        match field {
            "id" => {}
            "created" => tokens.sort_by_key(|token| token.created_at),
            "last_used" => tokens.sort_by_key(|token| token.last_used_at),
            "expires" => tokens.sort_by_key(|token| token.token.expires_at.unwrap_or(Timestamp::from_millis(i64::MAX))),
            _ => tokens.sort_by_cached_key(|token| token.token.name.to_lowercase()),
        }
        if is_descending {
            tokens.reverse();
        }
    }

    /// Whether a token passes the filter.
    pub fn matches(&self, token: &PersonalToken, now: Timestamp) -> bool {
        self.active.is_none_or(|active| active == token.is_active(now))
            && self.revoked.is_none_or(|revoked| revoked == token.token.revoked)
            && self.created.contains(token.created_at)
            && self.last_used.contains(token.last_used_at)
            && self.expires.contains(token.token.expires_at)
            && self.search.as_ref().is_none_or(|part| token.token.name.to_lowercase().contains(part))
    }
}

/// The order in the parameter `sort`, such as `name_asc` or `created_at_desc`.
fn parse_order(sort: &str) -> Option<(&'static str, bool)> {
    let (field, direction) = sort.rsplit_once('_')?;
    let field = field.strip_suffix("_at").unwrap_or(field);
    let field = ["id", "created", "expires", "last_used", "name"].into_iter().find(|known| *known == field)?;
    match direction {
        "asc" => Some((field, false)),
        "desc" => Some((field, true)),
        _ => None,
    }
}
