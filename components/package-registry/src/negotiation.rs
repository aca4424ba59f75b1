//! Content negotiation and conditional requests (RFC 9110 §12, §13).

/// The media type of abbreviated metadata.
pub const ABBREVIATED: &str = "application/vnd.npm.install-v1+json";

/// Whether `Accept` asks for abbreviated metadata. It must name the media type: a client that sends nothing, or accepts
/// anything, needs the full document.
pub fn wants_abbreviated(accept: Option<&str>) -> bool {
    let accept = accept.unwrap_or_default();
    let abbreviated = quality(accept, ABBREVIATED).unwrap_or_default();
    abbreviated > 0.0 && abbreviated >= quality(accept, "application/json").unwrap_or_default()
}

/// Whether `Accept` names JSON; `*/*` does not count.
pub fn wants_json(accept: Option<&str>) -> bool {
    quality(accept.unwrap_or_default(), "application/json").is_some_and(|quality| quality > 0.0)
}

/// Whether `Accept-Encoding` accepts gzip with at least the quality of no encoding (RFC 9110 §12.5.3).
pub fn wants_gzip(accept_encoding: Option<&str>) -> bool {
    let accept = accept_encoding.unwrap_or_default();
    let gzip = ["gzip", "x-gzip", "*"].into_iter().find_map(|name| quality(accept, name)).unwrap_or_default();
    gzip > 0.0 && gzip >= quality(accept, "identity").unwrap_or_default()
}

/// The quality of a value that is listed by its full name (RFC 9110 §12.4.2).
fn quality(accept: &str, name: &str) -> Option<f32> {
    accept.split(',').find_map(|range| {
        let mut parts = range.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(name) {
            return None;
        }
        let weight = parts.find_map(|part| part.strip_prefix("q=").or(part.strip_prefix("Q=")));
        Some(weight.map_or(1.0, |weight| weight.parse().unwrap_or_default()))
    })
}

/// Whether the client has the representation that `entity_tag` identifies (RFC 9110 §13.1.2). `if_none_match` has all
/// values of the header.
pub fn is_known<'a>(if_none_match: impl IntoIterator<Item = &'a str>, entity_tag: &str) -> bool {
    if_none_match.into_iter().flat_map(|value| value.split(',')).map(str::trim).any(|known| {
        // A proxy that compresses marks the tag as weak; the comparison is weak for that reason.
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == entity_tag
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviated_must_be_asked_for_by_name() {
        for (accept, wanted) in [
            (None, false),
            (Some(""), false),
            (Some("*/*"), false),
            (Some("application/json"), false),
            (Some("application/vnd.npm.install-v1+json"), true),
            (Some("application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*"), true),
            (Some("application/json, Application/vnd.npm.install-v1+json"), true),
            (Some("application/json, application/vnd.npm.install-v1+json;q=0.5"), false),
            (Some("application/vnd.npm.install-v1+json;q=0"), false),
            (Some("application/vnd.npm.install-v1+json;q=many"), false),
            (Some("application/vnd.npm.install-v2+json"), false),
        ] {
            assert_eq!(wants_abbreviated(accept), wanted, "{accept:?}");
        }
    }

    #[test]
    fn gzip_must_be_accepted() {
        for (accept, wanted) in [
            (None, false),
            (Some(""), false),
            (Some("identity"), false),
            (Some("br, zstd"), false),
            (Some("gzip;q=0"), false),
            (Some("gzip;q=0.000, *"), false),
            (Some("*;q=0"), false),
            (Some("gzip;q=0.5, identity"), false),
            (Some("gzip;q=NaN"), false),
            (Some("gzip;q=-1"), false),
            (Some("gzipped"), false),
            (Some("gzip"), true),
            (Some("GZip"), true),
            (Some("x-gzip"), true),
            (Some("*"), true),
            (Some("gzip, deflate, br"), true),
            (Some("zstd,gzip,deflate"), true),
            (Some("br;q=1.0 , gzip; q=0.8, *;q=0.1"), true),
            (Some("identity;q=0.5, gzip;q=0.5"), true),
            (Some("identity;q=0, gzip;Q=0.001"), true),
        ] {
            assert_eq!(wants_gzip(accept), wanted, "{accept:?}");
        }
    }

    #[test]
    fn known_representations() {
        for header in ["\"a\"", "W/\"a\"", "\"b\", \"a\"", "\"b\" ,W/\"a\"", "*"] {
            assert!(is_known([header], "\"a\""), "{header}");
        }
        for header in ["", "a", "\"b\"", "\"aa\"", "W/a"] {
            assert!(!is_known([header], "\"a\""), "{header}");
        }
        assert!(is_known(["\"b\"", "\"a\""], "\"a\""));
        assert!(!is_known([], "\"a\""));
    }
}
