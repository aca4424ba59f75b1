//! Values of options.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use url::Url;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The longest time for a client, a request or a stop, in hours.
const LONGEST: u32 = 24;

/// The longest period of maintenance, in hours.
const RAREST: u32 = 366 * 24;

/// The maximum number of threads. More would share the same processors, and each has its own memory, files and
/// instances.
const MAX_THREADS: usize = 1024;

/// A time of at most a day, or 0.
pub fn parse_period(text: &str) -> Result<Duration, String> {
    parse_within(text, LONGEST)
}

/// A time of at most a year, or 0.
pub fn parse_rare_period(text: &str) -> Result<Duration, String> {
    parse_within(text, RAREST)
}

/// A time of at most a day, and not 0.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    parse_within(text, LONGEST)
        .ok()
        .filter(|time| !time.is_zero())
        .ok_or_else(|| format!("write a number and a unit, such as 75s, and at most {LONGEST}h"))
}

fn parse_within(text: &str, hours: u32) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let parsed = text.parse::<SignedDuration>().ok().and_then(|period| Duration::try_from(period).ok());
    let parsed = parsed.filter(|period| *period <= HOUR * hours);
    parsed.ok_or_else(|| format!("write a number and a unit, such as 6h, and at most {hours}h, or 0"))
}

/// A number above zero.
pub fn parse_count<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "write a number from 1".to_owned())
}

pub fn parse_threads(text: &str) -> Result<NonZeroUsize, String> {
    let parsed = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= MAX_THREADS);
    parsed.ok_or_else(|| format!("write a number from 1 to {MAX_THREADS}; one for each processor is enough"))
}

/// An address to listen on: `127.0.0.1:8080`, `[::]:8080`, `localhost:8080`, or `:8080` for every IPv4 address of the
/// machine.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let host = match host {
        "" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let parsed = format!("{host}:{port}").parse();
    parsed.map_err(|_| "write an address and a port, such as 127.0.0.1:8080, localhost:8080 or :8080".to_owned())
}

/// The URL of a server for commands. Without a scheme it is http for this machine, and https for another, because
/// requests have a token. `/api/v4` at its end is left out.
pub fn parse_server_url(text: &str) -> Result<String, String> {
    let with = |scheme: &str| Url::parse(&format!("{scheme}://{text}"));
    let is_local = |url: &Url| matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let parsed = match (text.contains("://"), with("http")) {
        (true, _) => Url::parse(text).map(|_| text.to_owned()),
        (false, Ok(url)) if is_local(&url) => Ok(format!("http://{text}")),
        (false, _) => with("https").map(|_| format!("https://{text}")),
    };
    let url = parsed.map_err(|_| "write the URL of a server, such as https://forge.example".to_owned())?;
    let url = url.trim_end_matches('/');
    Ok(url.strip_suffix("/api/v4").unwrap_or(url).to_owned())
}

/// The URL under which clients reach the application, unchanged.
pub fn parse_external_url(text: &str) -> Result<String, String> {
    let parsed = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
            // This parser, like browsers, accepts a URL without slashes or with other ones. Other clients do not.
            && text.get(url.scheme().len()..).and_then(|rest| rest.strip_prefix("://")).is_some_and(|rest| {
                !rest.starts_with('/') && !rest.contains(|character: char| character.is_whitespace() || character == '\\')
            })
    });
    parsed.map(|_| text.to_owned()).ok_or_else(|| {
        "write an http or https URL without a user, a query or a fragment, such as https://forge.example".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_bound() {
        assert_eq!(parse_period("0"), Ok(Duration::ZERO));
        assert_eq!(parse_period("24h"), Ok(HOUR * 24));
        for text in ["24h1s", "99999999999h", "-1s", "1", "", "x"] {
            assert!(parse_period(text).unwrap_err().contains("at most 24h"), "{text}");
            assert!(parse_time(text).unwrap_err().contains("at most 24h"), "{text}");
        }
        assert!(parse_time("0").is_err() && parse_time("0s").is_err());
        assert_eq!(parse_rare_period("168h"), Ok(HOUR * 168));
        assert!(parse_rare_period("99999h").is_err());
    }

    #[test]
    fn addresses_have_short_forms() {
        for (text, address) in [
            (":8080", "0.0.0.0:8080"),
            ("localhost:0", "127.0.0.1:0"),
            ("[::]:80", "[::]:80"),
            ("10.0.0.1:1", "10.0.0.1:1"),
        ] {
            assert_eq!(parse_address(text).map(|address| address.to_string()), Ok(address.to_owned()));
        }
        for text in ["8080", ":", ":x", "::1:80", "host:80", ":65536", ""] {
            assert!(parse_address(text).unwrap_err().contains("such as 127.0.0.1:8080"), "{text}");
        }
    }

    #[test]
    fn a_token_goes_to_another_machine_by_https() {
        for (text, url) in [
            ("localhost:8080", "http://localhost:8080"),
            ("127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("[::1]:1/below", "http://[::1]:1/below"),
            ("forge.example", "https://forge.example"),
            ("localhost.forge.example:80/api/v4/", "https://localhost.forge.example:80"),
            ("http://forge.example/below/api/v4", "http://forge.example/below"),
        ] {
            assert_eq!(parse_server_url(text), Ok(url.to_owned()));
        }
        for text in ["", "http://", "a b", "https://a b"] {
            assert!(parse_server_url(text).unwrap_err().contains("such as https://forge.example"), "{text}");
        }
    }

    #[test]
    fn there_are_not_too_many_threads() {
        assert_eq!(parse_threads("2").unwrap().get(), 2);
        for text in ["0", "100000", "-1", "x"] {
            assert!(parse_threads(text).unwrap_err().contains("from 1 to 1024"), "{text}");
        }
    }

    #[test]
    fn an_external_url_is_one_of_the_web() {
        for text in
            ["https://forge.example", "http://127.0.0.1:8080/", "HTTPS://forge.example/below", "http://[::1]:80"]
        {
            assert_eq!(parse_external_url(text), Ok(text.to_owned()));
        }
        let unusable =
            ["foo", "", "/a", "forge.example", "ftp://forge.example", "https:forge.example", "https://", "http:///a"];
        let unsafe_ones =
            ["https://mia:word@forge.example", "https://forge.example?a", "https://forge.example#a", "https://a b"];
        for text in unusable.into_iter().chain(unsafe_ones) {
            assert!(parse_external_url(text).unwrap_err().starts_with("write an http or https URL"), "{text}");
        }
    }
}
