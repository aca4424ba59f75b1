//! Offset pagination of lists: the parameters `page` and `per_page`, and the response headers `Link` and `X-…`.

use crate::error::Error;
use crate::params::{Params, Validation};
use crate::response::Response;
use http::header::{HeaderName, LINK};

/// Rows per page by default.
const DEFAULT_PER_PAGE: u64 = 20;

/// The most rows per page. A larger `per_page` is reduced to it without an error.
const MAX_PER_PAGE: u64 = 100;

/// The most rows for which the headers have a total, as in the reference service.
const MAX_TOTAL: u64 = 10_000;

/// The requested page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pagination {
    /// From 1.
    pub page: u64,
    pub per_page: u64,
}

impl Pagination {
    /// Reads `page` and `per_page`. 400 if one is not an integer, or if `per_page` is 0.
    pub fn read(params: &Params) -> Result<Self, Error> {
        let checks = Validation::new(params);
        let page = Pagination::check(&checks);
        checks.finish()?;
        Ok(page)
    }

    /// Like [`Pagination::read`], as part of a larger validation.
    pub fn check(checks: &Validation) -> Self {
        let (page, per_page) = (checks.integer("page"), checks.integer("per_page"));
        if per_page == Some(0) {
            checks.reject("per_page has a value not allowed");
        }
        let positive = |n: Option<i64>| n.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
        Pagination {
            page: positive(page).unwrap_or(1),
            per_page: positive(per_page).unwrap_or(DEFAULT_PER_PAGE).min(MAX_PER_PAGE),
        }
    }

    /// The number of rows before this page.
    pub fn offset(self) -> u64 {
        (self.page - 1).saturating_mul(self.per_page)
    }

    /// Adds the pagination headers. `url` is the list's URL without a query. `params` are the effective parameters
    /// except the page. `total` is the number of all rows.
    pub fn describe(self, response: Response, url: &str, params: &[(&str, &str)], total: u64) -> Response {
        let pages = total.div_ceil(self.per_page).max(1);
        let has_total = total <= MAX_TOTAL;
        let next = (self.page < pages).then_some(self.page + 1);
        let previous = (self.page > 1 && self.page <= pages).then_some(self.page - 1);
        let link = |page: u64, rel: &str| {
            let (page, per_page) = (page.to_string(), self.per_page.to_string());
            let mut query: Vec<(&str, &str)> = params.to_vec();
            query.extend([("page", page.as_str()), ("per_page", per_page.as_str())]);
            query.sort_unstable();
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            format!("<{url}?{query}>; rel=\"{rel}\"")
        };
        let links = [
            previous.map(|page| link(page, "prev")),
            next.map(|page| link(page, "next")),
            Some(link(1, "first")),
            has_total.then(|| link(pages, "last")),
        ];
        let links: Vec<String> = links.into_iter().flatten().collect();
        let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let mut headers = vec![
            ("x-page", number(Some(self.page))),
            ("x-per-page", number(Some(self.per_page))),
            ("x-next-page", number(next)),
            ("x-prev-page", number(previous)),
        ];
        if has_total {
            headers.extend([("x-total", number(Some(total))), ("x-total-pages", number(Some(pages)))]);
        }
        headers.into_iter().fold(response.with_text(LINK, &links.join(", ")), |response, (name, value)| {
            response.with_text(HeaderName::from_static(name), &value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<(u64, u64), String> {
        Pagination::read(&Params::parse(query)).map(|p| (p.page, p.per_page)).map_err(|e| e.to_json().to_string())
    }

    #[test]
    fn reads_within_bounds() {
        assert_eq!(read(""), Ok((1, 20)));
        assert_eq!(read("page=3&per_page=50"), Ok((3, 50)));
        assert_eq!(read("page=0&per_page=1000"), Ok((1, 100)));
        assert_eq!(read("page=-4&per_page=-1"), Ok((1, 20)));
    }

    #[test]
    fn refuses_invalid_pages() {
        assert_eq!(read("page=x"), Err(r#"{"error":"page is invalid"}"#.into()));
        assert_eq!(read("per_page=0"), Err(r#"{"error":"per_page has a value not allowed"}"#.into()));
    }

    fn headers(page: u64, per_page: u64, total: u64) -> http::HeaderMap {
        let page = Pagination { page, per_page };
        page.describe(Response::new(http::StatusCode::OK), "http://h/api", &[("search", "a b")], total).headers
    }

    #[test]
    fn describes_a_middle_page() {
        let headers = headers(2, 10, 35);
        assert_eq!(headers["x-total"], "35");
        assert_eq!(headers["x-total-pages"], "4");
        assert_eq!((&headers["x-prev-page"], &headers["x-next-page"]), (&"1".parse().unwrap(), &"3".parse().unwrap()));
        let expected = "<http://h/api?page=1&per_page=10&search=a+b>; rel=\"prev\", \
         <http://h/api?page=3&per_page=10&search=a+b>; rel=\"next\", \
         <http://h/api?page=1&per_page=10&search=a+b>; rel=\"first\", \
         <http://h/api?page=4&per_page=10&search=a+b>; rel=\"last\"";
        assert_eq!(headers["link"], expected);
    }

    #[test]
    fn an_empty_list_has_one_page() {
        let headers = headers(1, 10, 0);
        assert_eq!((&headers["x-total-pages"], &headers["x-next-page"]), (&"1".parse().unwrap(), &"".parse().unwrap()));
    }

    #[test]
    fn a_page_past_the_end_has_no_neighbours() {
        let headers = headers(9, 10, 35);
        assert_eq!((headers["x-prev-page"].len(), headers["x-next-page"].len()), (0, 0));
    }

    #[test]
    fn a_large_list_is_not_counted() {
        let headers = headers(1, 10, 10_001);
        assert!(!headers.contains_key("x-total") && !headers.contains_key("x-total-pages"));
        assert!(!headers["link"].to_str().unwrap().contains("last"));
        assert!(self::headers(1, 10, 10_000).contains_key("x-total"));
    }
}
