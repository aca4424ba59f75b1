//! Points in time, in whole milliseconds since 1970 (UTC), and their text forms.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

/// A source of the present time.
pub trait Clock {
    fn now(&self) -> Timestamp;

    /// Returns after `time`. Only this instance waits.
    fn sleep(&self, time: Duration);
}

/// A clock that stands still, for tests and for values fixed at a moment. It does not wait.
impl Clock for Timestamp {
    fn now(&self) -> Timestamp {
        *self
    }

    fn sleep(&self, _time: Duration) {}
}

impl Timestamp {
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    pub const fn millis(self) -> i64 {
        self.0
    }

    /// `2026-11-21T05:49:56.123Z`. Times beyond the year 9999 are shown as its last moment.
    pub fn to_iso(self) -> String {
        let moment = EPOCH.checked_add(SignedDuration::from_millis(self.0)).unwrap_or(DateTime::MAX);
        format!("{moment:.3}Z")
    }

    /// Reads ISO 8601: a date, or a date and time with `Z`, an offset, or neither (then UTC).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // The name of a time zone behind it, as in RFC 9557, which the library does not check beside an offset.
        if text.contains('[') {
            return None;
        }
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            return Some(Timestamp(moment.as_millisecond()));
        }
        // The last moments of the year 9999 have no `jiff::Timestamp`: they are in the next year elsewhere.
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
