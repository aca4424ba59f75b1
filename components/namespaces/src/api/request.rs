//! A request about users, projects or groups, and its response with a page.

use directory::caller::Caller;
use directory::member::Memberships;
use directory::request_limits;
use kit::page::Pagination;
use kit::params::Params;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response, keyset};
use serde_json::Value;

/// The parameters with list values.
const LISTS: [&str; 4] = ["skip_groups", "skip_users", "topic", "user_ids"];

pub struct DirectoryRequest<'a> {
    pub env: &'a Env,
    pub http: &'a Request,
    pub caller: &'a Caller,
    pub params: &'a Params,
}

impl DirectoryRequest<'_> {
    /// The service's base URL without a trailing slash.
    pub fn url(&self) -> String {
        self.env.external_url(self.http)
    }

    /// Counts the records that an anonymous request will read; 429 beyond the limit.
    pub fn check_records(&self, records: usize) -> Result<(), Error> {
        request_limits::check_anonymous_records(self.env, self.http, self.caller, records)
    }

    /// The same for rows of the catalog.
    pub fn check_rows(&self, rows: usize) -> Result<(), Error> {
        request_limits::check_anonymous_rows(self.env, self.http, self.caller, rows)
    }

    /// The caller's direct memberships; none for an anonymous caller.
    pub fn memberships(&self) -> Result<Memberships, StoreError> {
        let memberships = self.caller.session().map(|session| session.memberships(self.env)).transpose()?;
        Ok(memberships.cloned().unwrap_or_default())
    }

    /// A page of `rows`, rendered by `render`. Links to other pages repeat the parameters `names`. A row is omitted if
    /// its record was deleted since the catalog was read.
    pub fn respond<R: Copy>(
        &self,
        page: Pagination,
        names: &[&'static str],
        rows: &[R],
        render: impl Fn(R) -> Result<Option<Value>, Error>,
    ) -> Result<Response, Error> {
        let offset = usize::try_from(page.offset()).unwrap_or(usize::MAX);
        let shown = rows.iter().skip(offset).take(page.per_page as usize);
        let shown: Result<Vec<Value>, Error> = shown.filter_map(|row| render(*row).transpose()).collect();
        Ok(page.describe(Response::ok(&shown?), &self.list_url(), &self.given(names), rows.len() as u64))
    }

    /// The first page of `rows`. The rows begin after the cursor of the request. `next` gets the last row of this page
    /// and whether more rows follow. It returns the parameter for the next page, or `None` for no link.
    pub fn respond_with_next<R: Copy>(
        &self,
        page: Pagination,
        names: &[&'static str],
        rows: &[R],
        next: impl Fn(R, bool) -> Option<(&'static str, String)>,
        render: impl Fn(R) -> Result<Option<Value>, Error>,
    ) -> Result<Response, Error> {
        let per_page = page.per_page as usize;
        let shown: Vec<R> = rows.iter().take(per_page).copied().collect();
        let entities: Result<Vec<Value>, Error> = shown.iter().filter_map(|row| render(*row).transpose()).collect();
        let response = Response::ok(&entities?);
        let Some((name, value)) = shown.last().and_then(|last| next(*last, rows.len() > per_page)) else {
            return Ok(response);
        };
        let per_page = page.per_page.to_string();
        let mut given = self.given(names);
        given.push(("per_page", &per_page));
        Ok(keyset::with_next_page(response, &self.list_url(), &given, (name, &value)))
    }

    fn list_url(&self) -> String {
        format!("{}{}", self.url(), self.http.path)
    }

    /// The parameters with these names, as the client sent them. If a parameter is not a list, its last value counts.
    fn given(&self, names: &[&str]) -> Vec<(&str, &str)> {
        let is_effective = |(name, value): &(&str, &str)| {
            let list = name.strip_suffix("[]").unwrap_or(name);
            let counts = LISTS.contains(&list) || self.params.last(name) == Some(*value);
            names.contains(&list) && !value.is_empty() && counts
        };
        self.params.pairs().filter(is_effective).collect()
    }
}
