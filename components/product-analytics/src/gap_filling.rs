//! Gap filling: the engine omits days without rows from a result, but charts need a zero for each.
//!
//! Gaps are filled for a filter `inDateRange` of a query with measures whose rows are by day. As in
//! the reference service, a range in `timeDimensions` does not fill gaps.

use crate::response::ResponseError;
use jiff::civil::Date;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::{RawValue, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

/// The most gaps and measures of a query whose gaps are filled. Charts have a few of each. Each missing day gets a row
/// for each gap, with all measures.
const MAX_GAPS: usize = 20;
const MAX_MEASURES: usize = 200;

/// A range of days, each of which gets a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The time dimension, for example `Sessions.startAt`.
    member: String,
    first: Date,
    last: Date,
    measures: Rc<[String]>,
}

/// The part of a query that matters for gap filling. If a member has another type, no gaps are filled, and the engine
/// reports the error.
#[derive(Deserialize)]
struct PartialQuery {
    #[serde(default)]
    measures: Vec<String>,
    #[serde(default)]
    filters: Vec<Filter>,
}

#[derive(Deserialize)]
struct Filter {
    member: Option<String>,
    operator: Option<String>,
    #[serde(default)]
    values: Vec<Value>,
}

/// The gaps to fill for a query.
pub fn requested(query: &RawValue) -> Vec<Gap> {
    let Ok(PartialQuery { measures, filters }) = serde_json::from_str(query.get()) else { return Vec::new() };
    if measures.is_empty() || measures.len() > MAX_MEASURES {
        return Vec::new();
    }
    let measures: Rc<[String]> = measures.into();
    let gap = |filter: Filter| {
        let [first, last] = filter.values.as_slice() else { return None };
        let is_range = filter.operator.as_deref() == Some("inDateRange");
        let (first, last) = (day(first.as_str()?)?, day(last.as_str()?)?);
        Some(Gap { member: filter.member?, first, last, measures: measures.clone() }).filter(|_| is_range)
    };
    filters.into_iter().filter_map(gap).take(MAX_GAPS).collect()
}

/// The day of a date or of a time.
fn day(text: &str) -> Option<Date> {
    text.get(..10)?.parse().ok()
}

#[derive(Deserialize)]
struct ResultSets<'a> {
    #[serde(borrow)]
    results: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct ResultSet<'a> {
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

/// Appends rows for the missing days to the rows of each result, and leaves every other byte of `whole` unchanged. The
/// error: the text grows beyond `limit` bytes.
pub fn fill(whole: String, gaps: &[Gap], limit: u64) -> Result<String, ResponseError> {
    let Ok(ResultSets { results: Some(results) }) = serde_json::from_str(&whole) else { return Ok(whole) };
    let (mut filled, mut copied) = (String::new(), 0);
    for data in results.iter().filter_map(|result| serde_json::from_str::<ResultSet>(result.get()).ok()?.data) {
        // A list of other values than rows has no days.
        let Ok(days) = days(data, gaps) else { continue };
        let mut rows = String::new();
        for (gap, present) in gaps.iter().zip(&days).filter(|(_, present)| !present.is_empty()) {
            gap.rows(present, &mut rows, limit)?;
        }
        // `data` borrows from `whole`; its last byte is the bracket that closes the list.
        let end = (data.get().as_ptr() as usize - whole.as_ptr() as usize) + data.get().len() - 1;
        filled.push_str(whole.get(copied..end).unwrap_or_default());
        filled.push_str(&rows);
        copied = end;
        if filled.len() as u64 > limit {
            return Err(ResponseError::TooLarge(limit));
        }
    }
    filled.push_str(whole.get(copied..).unwrap_or_default());
    if filled.len() as u64 > limit { Err(ResponseError::TooLarge(limit)) } else { Ok(filled) }
}

impl Gap {
    /// The name of a row's member for the day.
    fn by_day(&self) -> String {
        format!("{}.day", self.member)
    }

    /// Appends `,` and a row for each day that is not in `present`.
    fn rows(&self, present: &BTreeSet<Date>, rows: &mut String, limit: u64) -> Result<(), ResponseError> {
        let quoted = |text: &str| Value::from(text).to_string();
        let zeros: String = self.measures.iter().map(|measure| format!(",{}:\"0\"", quoted(measure))).collect();
        let (by_day, member) = (quoted(&self.by_day()), quoted(&self.member));
        let mut next = Some(self.first);
        while let Some(day) = next.filter(|day| *day <= self.last) {
            if !present.contains(&day) {
                rows.push_str(&format!(",{{{by_day}:\"{day}T00:00:00.000\",{member}:\"{day}T00:00:00.000\"{zeros}}}"));
            }
            if rows.len() as u64 > limit {
                return Err(ResponseError::TooLarge(limit));
            }
            next = day.tomorrow().ok();
        }
        Ok(())
    }
}

/// The days that have rows, for each gap.
fn days(data: &RawValue, gaps: &[Gap]) -> Result<Vec<BTreeSet<Date>>, serde_json::Error> {
    /// Reads rows one by one, so that a long list is not in memory twice.
    struct Rows<'g>(&'g [Gap]);

    impl<'de> Visitor<'de> for Rows<'_> {
        type Value = Vec<BTreeSet<Date>>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("a list of rows")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Self::Value, A::Error> {
            let names: Vec<String> = self.0.iter().map(Gap::by_day).collect();
            let mut days = vec![BTreeSet::new(); names.len()];
            while let Some(row) = rows.next_element::<BTreeMap<String, &RawValue>>()? {
                for (name, days) in names.iter().zip(&mut days) {
                    let Some(value) = row.get(name) else { continue };
                    let text: Option<String> = serde_json::from_str(value.get()).map_err(A::Error::custom)?;
                    days.extend(text.as_deref().and_then(day));
                }
            }
            Ok(days)
        }
    }
    serde_json::Deserializer::from_str(data.get()).deserialize_seq(Rows(gaps))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 20 << 20;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn query(values: &str) -> Box<RawValue> {
        raw(&format!(
            r#"{{"measures":["S.count","S.\"x"],"filters":[{{"member":"S.at","operator":"inDateRange","values":{values}}}]}}"#
        ))
    }

    #[test]
    fn only_a_date_range_of_a_query_with_measures_asks_for_it() {
        assert_eq!(requested(&query(r#"["2024-05-01","2024-05-05T23:59:59"]"#)).len(), 1);
        for values in
            [r#"["2024-05-01"]"#, "[]", r#"["2024-05-01","2024-05-02","2024-05-03"]"#, r#"["x","y"]"#, "[1,2]", "5"]
        {
            assert_eq!(requested(&query(values)), [], "{values}");
        }
        for text in [
            "{}",
            r#"{"filters":[{"member":"S.at","operator":"inDateRange","values":["2024-05-01","2024-05-02"]}]}"#,
            r#"{"measures":["a"],"filters":[{"member":"S.at","operator":"equals","values":["2024-05-01","2024-05-02"]}]}"#,
            r#"{"measures":["a"],"filters":[{"or":[]}]}"#,
            r#"{"measures":["a"],"filters":{"x":1}}"#,
            r#"{"measures":["a"],"timeDimensions":[{"dimension":"S.at","dateRange":["2024-05-01","2024-05-02"]}]}"#,
        ] {
            assert_eq!(requested(&raw(text)), [], "{text}");
        }
    }

    #[test]
    fn a_query_with_very_many_ranges_or_measures_fills_few_gaps_or_none() {
        let filter = r#"{"member":"S.at","operator":"inDateRange","values":["2024-05-01","2024-05-02"]}"#;
        let requested = |measures: usize, filters: usize| {
            let (measures, filters) = (vec![r#""a""#; measures].join(","), vec![filter; filters].join(","));
            requested(&raw(&format!(r#"{{"measures":[{measures}],"filters":[{filters}]}}"#))).len()
        };
        assert_eq!([requested(200, 20), requested(200, 30_000), requested(201, 1)], [20, 20, 0]);
    }

    #[test]
    fn missing_days_follow_the_others_and_no_other_byte_changes() {
        let gaps = requested(&query(r#"["2024-05-01","2024-05-03"]"#));
        let whole = r#"{ "results":[{"data":[ {"S.at.day":"2024-05-02T00:00:00.000","S.count":1.50e2} ],"n":1},{"data":[]}],"x":0 }"#;
        let day = |day| {
            format!(
                r#",{{"S.at.day":"2024-05-0{day}T00:00:00.000","S.at":"2024-05-0{day}T00:00:00.000","S.count":"0","S.\"x":"0"}}"#
            )
        };
        let expected = whole.replacen(" ],", &format!(" {}{}],", day(1), day(3)), 1);
        assert_eq!(fill(whole.into(), &gaps, LIMIT).unwrap(), expected);
    }

    #[test]
    fn results_that_are_not_by_day_are_unchanged() {
        let gaps = requested(&query(r#"["2024-05-01","2024-05-03"]"#));
        for whole in [
            r#"{"results":[{"data":[{"S.at":"2024-05-02T00:00:00.000","S.count":1}]}]}"#,
            r#"{"results":[{"data":[{"S.at.day":null}]}]}"#,
            r#"{"results":[{"data":[{"S.at.day":5}]}]}"#,
            r#"{"results":[{"data":{"members":[],"dataset":[]}}]}"#,
            r#"{"results":[{"data":[1,2]}]}"#,
            r#"{"results":[{}]}"#,
            r#"{"results":null}"#,
            r#"{"results":[]}"#,
            r#"{"data":[{"S.at.day":"2024-05-02T00:00:00.000"}]}"#,
        ] {
            assert_eq!(fill(whole.into(), &gaps, LIMIT).unwrap(), whole);
        }
        let backwards = requested(&query(r#"["2024-05-03","2024-05-01"]"#));
        let whole = r#"{"results":[{"data":[{"S.at.day":"2024-05-02"}]}]}"#;
        assert_eq!(fill(whole.into(), &backwards, LIMIT).unwrap(), whole);
    }

    #[test]
    fn a_range_of_millennia_is_too_large() {
        let gaps = requested(&query(r#"["0001-01-01","9999-12-31"]"#));
        let whole = r#"{"results":[{"data":[{"S.at.day":"2024-05-02T00:00:00.000"}]}]}"#;
        assert!(matches!(fill(whole.into(), &gaps, LIMIT), Err(ResponseError::TooLarge(LIMIT))));
    }
}
