//! Pages of lists of personal tokens. No index of all tokens exists. They are read user by user, up to the end of the
//! page.

use directory::token::{self, PersonalToken, PersonalTokens, TokenId, UserTokens};
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Timestamp};
use std::collections::VecDeque;

/// The most reads of a request for a numbered page. A high page number also reads the tokens of earlier pages. A filter
/// or an order also reads tokens that the page does not show.
pub const MAX_READS: u64 = 50_000;

/// The most reads for counting the tokens after the page.
const COUNTED_READS: u64 = 1_000;

/// The most reads of a request for a keyset page. Beyond them the page has fewer tokens, or none, and still links to
/// the next page.
pub const KEYSET_READS: u64 = 2_000;

/// A numbered page of a list.
pub struct TokenPage {
    /// The tokens with their last uses.
    pub tokens: Vec<PersonalToken>,
    /// The number of tokens on all pages. `None` if counting took too many reads and tokens follow after this page.
    pub total: Option<u64>,
}

/// A page of keyset pagination.
pub struct KeysetPage {
    /// The tokens with their last uses.
    pub tokens: Vec<PersonalToken>,
    /// The id after which the next page begins. `None` on the last page.
    pub next: Option<TokenId>,
}

/// A numbered page of the tokens of `users`, which ascend. `None` if it takes more than `max_reads`.
///
/// 1 read, 2 for each user and 1 for each token up to the end of the page, and 1 for each token of the page. If the
/// order is not by id, the same up to the end of the list.
pub fn page(
    env: &Env,
    users: Vec<u64>,
    filter: &TokenFilter,
    page: Pagination,
    max_reads: u64,
) -> Result<Option<TokenPage>, StoreError> {
    let mut scan = TokenScan::new(env, users, filter, None)?;
    let (mut found, mut count) = (Vec::new(), 0);
    let end = page.offset().saturating_add(page.per_page);
    let total = loop {
        let is_page_complete = filter.is_by_id() && count > end;
        match scan.next(if is_page_complete { COUNTED_READS } else { max_reads })? {
            Step::Found(token) => {
                if !filter.is_by_id() || (page.offset()..end).contains(&count) {
                    found.push(token);
                }
                count += 1;
            }
            Step::End => break Some(count),
            Step::OutOfReads if is_page_complete => break None,
            Step::OutOfReads => return Ok(None),
        }
    };
    if !filter.is_by_id() {
        filter.sort(&mut found);
        let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        found = found.into_iter().skip(offset).take(page.per_page as usize).collect();
    }
    Ok(Some(TokenPage { tokens: with_last_uses(env, found)?, total }))
}

/// A keyset page of the tokens of `users`, which ascend. It has at most `per_page` tokens after the id `after`, sorted
/// by id. Reads like [`page`], but from `after` on.
pub fn keyset_page(
    env: &Env,
    users: Vec<u64>,
    filter: &TokenFilter,
    after: Option<TokenId>,
    per_page: usize,
    max_reads: u64,
) -> Result<KeysetPage, StoreError> {
    let mut scan = TokenScan::new(env, users, filter, after)?;
    let (mut found, mut is_at_end) = (Vec::new(), false);
    // The loop does not look for a token after a full page, which could take many reads.
    while found.len() < per_page {
        match scan.next(max_reads)? {
            Step::Found(token) => found.push(token),
            Step::OutOfReads => break,
            Step::End => {
                is_at_end = true;
                break;
            }
        }
    }
    let next = scan.last.filter(|_| !is_at_end);
    Ok(KeysetPage { tokens: with_last_uses(env, found)?, next })
}

fn with_last_uses(env: &Env, tokens: Vec<PersonalToken>) -> Result<Vec<PersonalToken>, StoreError> {
    tokens.into_iter().map(|token| token::with_last_use(env, token)).collect()
}

/// Reads the tokens that pass a filter, in the order of their ids.
struct TokenScan<'a> {
    env: &'a Env,
    all: PersonalTokens<'a>,
    filter: &'a TokenFilter,
    /// The remaining users.
    users: VecDeque<u64>,
    /// The tokens of the current user; `None` before the first user.
    tokens: Option<UserTokens>,
    /// The remaining token ids of the current user.
    ids: VecDeque<TokenId>,
    /// The id after which the scan begins.
    after: Option<TokenId>,
    /// The id up to which the scan has read all tokens.
    last: Option<TokenId>,
    reads: u64,
}

enum Step {
    Found(PersonalToken),
    End,
    OutOfReads,
}

impl<'a> TokenScan<'a> {
    fn new(
        env: &'a Env,
        mut users: Vec<u64>,
        filter: &'a TokenFilter,
        after: Option<TokenId>,
    ) -> Result<Self, StoreError> {
        let all = PersonalTokens::open(env)?;
        if filter.is_by_descending_id() {
            users.reverse();
        }
        let (none, ids) = (VecDeque::new(), VecDeque::new());
        let mut scan = TokenScan { env, all, filter, users: none, tokens: None, ids, after, last: after, reads: 1 };
        scan.users = users.into_iter().filter(|user_id| !scan.is_passed(scan.end_of(*user_id))).collect();
        Ok(scan)
    }

    /// The last possible token id of a user, in the order of the scan.
    fn end_of(&self, user_id: u64) -> TokenId {
        let range = TokenId::range_of(user_id);
        if self.filter.is_by_descending_id() { *range.start() } else { *range.end() }
    }

    /// Whether an id is not after the start of the scan.
    fn is_passed(&self, id: TokenId) -> bool {
        self.after.is_some_and(|after| if self.filter.is_by_descending_id() { id >= after } else { id <= after })
    }

    /// The next token that passes, unless the scan reaches `max_reads` first.
    fn next(&mut self, max_reads: u64) -> Result<Step, StoreError> {
        loop {
            let is_at_end = self.ids.is_empty() && self.users.is_empty();
            if is_at_end || self.reads >= max_reads {
                return Ok(if is_at_end { Step::End } else { Step::OutOfReads });
            }
            match self.ids.pop_front() {
                None => self.enter_next_user()?,
                Some(id) => {
                    if let Some(token) = self.read(id)? {
                        return Ok(Step::Found(token));
                    }
                }
            }
        }
    }

    fn enter_next_user(&mut self) -> Result<(), StoreError> {
        let Some(user_id) = self.users.pop_front() else { return Ok(()) };
        let tokens = self.all.of_user(user_id)?;
        let mut ids: VecDeque<TokenId> = tokens.ids().collect();
        self.reads += if ids.is_empty() { 1 } else { 2 };
        ids.retain(|id| !self.is_passed(*id));
        if self.filter.is_by_descending_id() {
            ids.make_contiguous().reverse();
        }
        if ids.is_empty() {
            self.last = Some(self.end_of(user_id));
        }
        (self.tokens, self.ids) = (Some(tokens), ids);
        Ok(())
    }

    /// The token of the current user with this id, if it exists and passes the filter.
    fn read(&mut self, id: TokenId) -> Result<Option<PersonalToken>, StoreError> {
        self.reads += 1;
        self.last = Some(id);
        let found = self.tokens.as_ref().map(|tokens| tokens.find(self.env, id)).transpose()?.flatten();
        let Some(mut token) = found else { return Ok(None) };
        if self.filter.needs_last_use() {
            self.reads += 1;
            token = token::with_last_use(self.env, token)?;
        }
        Ok(Some(token).filter(|token| self.filter.matches(token, self.env.now)))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use directory::token::{Fingerprint, Subject, Token, save};
    use kit::params::{Params, Validation};
    use kit::testing::{MemoryStore, env};

    fn filter(query: &str) -> TokenFilter {
        TokenFilter::check(&Validation::new(&Params::parse(query)))
    }

    /// Users 1 to 9. The number of their tokens is their id.
    fn forge() -> Env {
        let env = env(MemoryStore::default(), &[]);
        for (user_id, number) in (1..10).flat_map(|id| (0..id).map(move |number| (id, number))) {
            let token = Token {
                subject: Subject::User(user_id),
                name: format!("{user_id}.{number}"),
                scopes: vec!["api".to_owned()],
                expires_at: None,
                revoked: false,
            };
            save(&env, &Fingerprint::of(token.name.as_bytes()), Some(token)).unwrap();
        }
        PersonalTokens::open(&env).unwrap();
        env
    }

    #[test]
    fn a_page_that_takes_too_many_reads_is_refused_and_no_other() {
        let env = forge();
        let names = |query: &str, number: u64, max_reads: u64| {
            let requested = Pagination { page: number, per_page: 3 };
            let found = page(&env, (1..10).collect(), &filter(query), requested, max_reads).unwrap()?;
            Some(found.tokens.into_iter().map(|token| token.token.name).collect::<Vec<_>>())
        };
        let owned = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        // 3 users with 2 reads each, and 4 tokens. The last token shows that another page follows.
        assert_eq!(names("", 1, 11), owned(&["1.0", "2.0", "2.1"]));
        assert_eq!(names("", 1, 10), None);
        assert_eq!(names("sort=id_desc", 2, 11), owned(&["9.5", "9.4", "9.3"]));
        // 9 users and 45 tokens. A filter by last uses also reads the last use of each token.
        assert_eq!(names("search=9.8", 1, 64), owned(&["9.8"]));
        assert_eq!(names("sort=name_desc", 1, 64), owned(&["9.8", "9.7", "9.6"]));
        assert_eq!((names("search=9.8", 1, 63), names("sort=name_desc", 1, 63)), (None, None));
        assert_eq!(names("last_used_after=2001-01-01", 1, 109), owned(&[]));
        assert_eq!(names("last_used_after=2001-01-01", 1, 100), None);
        assert_eq!(names("", 99, 64), owned(&[]));
    }

    #[test]
    fn keyset_pages_that_are_out_of_reads_go_on_where_they_ended() {
        let env = forge();
        for (query, expected) in [("", 45), ("sort=id_desc", 45), ("search=.0", 9), ("last_used_before=2001-01-01", 0)]
        {
            for max_reads in [5, 7, 20] {
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let page = keyset_page(&env, (1..10).collect(), &filter(query), after, 4, max_reads).unwrap();
                    found.extend(page.tokens.into_iter().map(|token| token.id));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                let mut sorted = found.clone();
                sorted.sort_unstable();
                sorted.dedup();
                if query == "sort=id_desc" {
                    sorted.reverse();
                }
                assert_eq!((found.len(), &found), (expected, &sorted), "{query} {max_reads}");
            }
        }
    }
}
