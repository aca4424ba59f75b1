//! A request about users, projects or groups, and the page that answers it.

use directory::caller::Caller;
use directory::member::Memberships;
use kit::page::Pagination;
use kit::params::Params;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use serde_json::Value;

pub struct DirectoryRequest<'a> {
    pub env: &'a Env,
    pub request: &'a Request,
    pub caller: &'a Caller,
    pub params: &'a Params,
}

impl DirectoryRequest<'_> {
    /// The service's base URL without a trailing slash.
    pub fn url(&self) -> String {
        self.env.external_url(self.request)
    }

    /// The caller's direct memberships; none for an anonymous caller.
    pub fn memberships(&self) -> Result<Memberships, StoreError> {
        let memberships = self.caller.session().map(|session| session.memberships(self.env)).transpose()?;
        Ok(memberships.cloned().unwrap_or_default())
    }

    /// A page of `rows`, each as `render` shows it. The links to other pages repeat the parameters of
    /// these `names`. A row whose record was deleted since the catalog was read is left out.
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
        let given: Vec<(&str, &str)> = names.iter().filter_map(|name| Some((*name, self.params.text(name)?))).collect();
        let url = format!("{}{}", self.url(), self.request.path);
        Ok(page.describe(Response::ok(&shown?), &url, &given, rows.len() as u64))
    }
}
