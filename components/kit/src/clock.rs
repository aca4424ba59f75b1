//! Points in time, in whole milliseconds since 1970 (UTC), and their text forms.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, ISOWeekDate, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A source of the present time.
pub trait Clock {
    /// The present time.
    fn now(&self) -> Timestamp;

    /// Returns after `time`. Only this instance waits.
    fn sleep(&self, time: Duration);
}

/// A fixed clock, for tests and for values of one moment. It does not wait.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }

    fn sleep(&self, _time: Duration) {}
}

impl Timestamp {
    /// From milliseconds since 1970 (UTC).
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// The milliseconds since 1970 (UTC).
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// `2026-11-21T05:49:56.123Z`. A time after the year 9999 is written as the last moment of that year.
    pub fn to_iso(self) -> String {
        let moment = EPOCH.checked_add(SignedDuration::from_millis(self.0)).unwrap_or(DateTime::MAX);
        format!("{moment:.3}Z")
    }

    /// Reads ISO 8601: a date, or a date and time with `Z`, an offset, or neither (then UTC). The date may be a
    /// calendar date, a week date (`2026-W48-6`) or an ordinal date (`2026-332`).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        Timestamp::parse_calendar(text).or_else(|| Timestamp::parse_calendar(&with_calendar_date(text)?))
    }

    /// Reads a date in the informal forms that the reference service accepts, with or without a time. Examples are
    /// `10/03/2024` (the day first), `10 Mar 2024`, `Sun, 10 Mar 2024 09:00:00 GMT` and `2024-03`. The time may be
    /// `24:00:00`.
    pub fn parse_informal(text: &str) -> Option<Self> {
        if let Some((day, rest)) = text.split_once("24:00").filter(|(day, _)| day.ends_with(['T', 't', ' '])) {
            let zone = rest.strip_prefix(":00").unwrap_or(rest);
            let is_end = !zone.starts_with(|c: char| c.is_ascii_digit() || matches!(c, ':' | '.' | ','));
            let midnight = is_end.then(|| format!("{day}00:00:00{zone}"))?;
            let Timestamp(start) = Timestamp::parse(&midnight).or_else(|| Timestamp::parse_informal(&midnight))?;
            return Some(Timestamp(start + DAY));
        }
        let (date, time) =
            text.split_at(text.find(':').and_then(|at| text.get(..at)?.rfind(' ')).unwrap_or(text.len()));
        let parts: Vec<&str> = date.split([' ', ',', '/', '.', '-']).filter(|part| !part.is_empty()).collect();
        let month = |text: &str| position(MONTHS, text).or_else(|| text.parse().ok());
        let (year, month, day) = match &parts[..] {
            [weekday, rest @ ..] if position(WEEKDAYS, weekday).is_some() => date_of(rest, month)?,
            all => date_of(all, month)?,
        };
        let date = Date::new(year, month, day).ok()?;
        let time = time.trim().replace("GMT", "Z").replace("UTC", "Z").replace(' ', "");
        Timestamp::parse_calendar(&if time.is_empty() { date.to_string() } else { format!("{date}T{time}") })
    }

    fn parse_calendar(text: &str) -> Option<Self> {
        // A time zone's name follows, as in RFC 9557. The library does not check it against an offset.
        if text.contains('[') {
            return None;
        }
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            return Some(Timestamp(moment.as_millisecond()));
        }
        // `jiff::Timestamp` lacks the last hours of the year 9999: in some time zones they are in the next year.
        let text = text.strip_suffix('Z').filter(|text| text.contains(':')).unwrap_or(text);
        let civil = match text.parse::<DateTime>() {
            Ok(civil) => civil,
            Err(_) => text.parse::<Date>().ok()?.to_datetime(Time::midnight()),
        };
        i64::try_from(civil.duration_since(EPOCH).as_millis()).ok().map(Timestamp)
    }

    /// The calendar day (UTC) as `YYYY-MM-DD`.
    pub fn to_date(self) -> String {
        self.to_iso().split('T').next().unwrap_or_default().to_owned()
    }
}

const MONTHS: &str = "jan feb mar apr may jun jul aug sep oct nov dec";
const WEEKDAYS: &str = "mon tue wed thu fri sat sun";

/// In milliseconds.
const DAY: i64 = 24 * 60 * 60 * 1000;

/// The number, from 1, of the name that `text` begins with.
fn position(names: &str, text: &str) -> Option<i8> {
    let letters = text.get(..3)?;
    let at = names.split(' ').position(|name| name.eq_ignore_ascii_case(letters))?;
    i8::try_from(at + 1).ok()
}

/// The year, month and day in the parts of a date. A year has four digits.
fn date_of(parts: &[&str], parse_month: impl Fn(&str) -> Option<i8>) -> Option<(i16, i8, i8)> {
    let (year, month, day) = match *parts {
        [year, month] => (year, month, "1"),
        [year, month, day] if year.len() == 4 => (year, month, day),
        [month, day, year] if position(MONTHS, month).is_some() => (year, month, day),
        [day, month, year] => (year, month, day),
        _ => return None,
    };
    let is_year = year.len() == 4 && year.bytes().all(|digit| digit.is_ascii_digit());
    Some((year.parse().ok().filter(|_| is_year)?, parse_month(month)?, day.parse().ok()?))
}

/// `text` with its week date or ordinal date replaced by the calendar date.
fn with_calendar_date(text: &str) -> Option<String> {
    let (date, time) = text.split_at(text.find(['T', 't', ' ']).unwrap_or(text.len()));
    let date = match date.parse::<ISOWeekDate>() {
        Ok(week) => week.date(),
        Err(_) => date_of_year(date)?,
    };
    Some(format!("{date}{time}"))
}

/// Parses an ordinal date, `YYYY-DDD`.
fn date_of_year(text: &str) -> Option<Date> {
    let (year, day) = text.split_once('-').filter(|(year, day)| year.len() == 4 && day.len() == 3)?;
    let number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?;
    Date::new(number(year)?, 1, 1).ok()?.with().day_of_year(number(day)?).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_milliseconds_always() {
        assert_eq!(Timestamp::from_millis(0).to_iso(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::from_millis(1_795_240_196_120).to_iso(), "2026-11-21T05:49:56.120Z");
        assert_eq!(Timestamp::from_millis(1_795_240_196_120).to_date(), "2026-11-21");
    }

    #[test]
    fn reads_dates_as_people_write_them() {
        let read = |text: &str| Timestamp::parse_informal(text).map(Timestamp::to_iso);
        for (text, expected) in [
            ("10/03/2024", "2024-03-10T00:00:00.000Z"),
            ("2024/03/10", "2024-03-10T00:00:00.000Z"),
            ("10.3.2024", "2024-03-10T00:00:00.000Z"),
            ("2024-03", "2024-03-01T00:00:00.000Z"),
            ("10 Mar 2024", "2024-03-10T00:00:00.000Z"),
            ("March 10, 2024", "2024-03-10T00:00:00.000Z"),
            ("10 march 2024 09:30", "2024-03-10T09:30:00.000Z"),
            ("Sun, 10 Mar 2024 09:00:00 GMT", "2024-03-10T09:00:00.000Z"),
            ("Sun, 10 Mar 2024 09:00:00 +0200", "2024-03-10T07:00:00.000Z"),
            ("2024-03-10T24:00:00Z", "2024-03-11T00:00:00.000Z"),
            ("2024-03-10 24:00", "2024-03-11T00:00:00.000Z"),
            ("10/03/2024 24:00:00", "2024-03-11T00:00:00.000Z"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
        let bad = [
            "soon",
            "",
            " ",
            ":",
            "2024",
            "10/03",
            "10/03/24",
            "31/02/2024",
            "03/13/2024",
            "2024-13",
            "10 Ma 2024",
            "Sun",
            "Sun, 10 Mar",
            "10 Mar 2024 25:00",
            "2024-03-10T24:00:01Z",
            "2024-03-10T24:30:00",
            "1/2/3/2024",
            "-10/03/2024x",
            "ü/03/2024",
            "10/03/2024 ü:00",
        ];
        for text in bad {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn reads_every_form_that_clients_send() {
        let noon = Some(Timestamp::from_millis(1_577_880_000_000));
        for text in [
            "2020-01-01T12:00:00Z",
            "2020-01-01T12:00:00.000Z",
            "2020-01-01T14:00:00+02:00",
            "2020-01-01T12:00:00",
            "2020-01-01 12:00:00Z",
            " 2020-01-01T12:00Z ",
        ] {
            assert_eq!(Timestamp::parse(text), noon, "{text}");
        }
        assert_eq!(Timestamp::parse("2020-01-01"), Some(Timestamp::from_millis(1_577_836_800_000)));
    }

    #[test]
    fn reads_dates_of_weeks_and_of_years() {
        for (text, date) in [
            ("2026-W48-6", "2026-11-28T00:00:00.000Z"),
            ("2020-W53-5", "2021-01-01T00:00:00.000Z"),
            ("2026-332", "2026-11-28T00:00:00.000Z"),
            ("2020-366", "2020-12-31T00:00:00.000Z"),
            ("2026-W48-6T10:00:00Z", "2026-11-28T10:00:00.000Z"),
            ("2026-332T12:00+02:00", "2026-11-28T10:00:00.000Z"),
            ("2026-332 10:00", "2026-11-28T10:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::parse(text).map(Timestamp::to_iso).as_deref(), Some(date), "{text}");
        }
        for text in
            ["2021-366", "2026-000", "2026-W54-1", "2026-W48-8", "2026-33", "2026-+32", "26-332", "2026-332T25:00"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_day_that_can_be_written_is_read() {
        for text in ["9999-12-31", "9999-12-31T00:00:00", "9999-12-31 00:00:00.000"] {
            let read = Timestamp::parse(text).unwrap();
            assert_eq!((read.to_iso().as_str(), read.to_date().as_str()), ("9999-12-31T00:00:00.000Z", "9999-12-31"));
        }
        for text in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59.999Z"] {
            assert_eq!(Timestamp::parse(text).unwrap().to_date(), "9999-12-31", "{text}");
        }
        assert_eq!(Timestamp::from_millis(i64::MAX).to_iso(), "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn texts_that_are_no_times_are_refused() {
        for text in [
            "",
            "yesterday",
            "2020-13-01",
            "2020-02-30",
            "12:00",
            "1577836800",
            "2020-01-01T12:00:00Z[garbage]",
            "2020-01-01T12:00:00+01:00[Europe/Paris]",
            "2020-01-01[UTC]",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }
}
