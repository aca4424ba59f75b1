//! Text from people that the page must show as it is: names of branches and files, lines of code.
//!
//! Characters that steer the direction of writing are named in their place. Otherwise a reader would see
//! other letters, or another order of them, than programs read.

use maud::{Markup, Render, html};

/// Whether a character steers the direction of the text around it and is itself invisible.
fn is_control(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}')
}

/// Whether a text has characters that [`revealed`] names.
pub fn has_controls(text: &str) -> bool {
    text.contains(is_control)
}

/// The text, with the names of such characters in their place.
pub fn revealed(text: &str) -> Markup {
    html! {
        @for part in text.split_inclusive(is_control) {
            @match part.char_indices().next_back().filter(|(_, c)| is_control(*c)) {
                Some((at, control)) => {
                    (part.get(..at).unwrap_or_default())
                    span.control { (format!("U+{:04X}", u32::from(control))) }
                }
                None => (part),
            }
        }
    }
}

/// A name that programs use, such as a branch's.
pub fn code(name: &str) -> Markup {
    html! { code { bdi { (revealed(name)) } } }
}

/// Whether rendered Markdown has nothing to see.
pub fn is_blank(rendered: &Markup) -> bool {
    let html = rendered.render().into_string();
    let texts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    !html.contains("<hr") && texts.into_iter().all(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_named_in_their_place() {
        assert_eq!(
            revealed("a\u{202e}<b>\u{61c}").into_string(),
            "a<span class=\"control\">U+202E</span>&lt;b&gt;<span class=\"control\">U+061C</span>"
        );
        for control in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{200f}', '\u{61c}'] {
            assert!(has_controls(&format!("a{control}b")), "{control:?}");
        }
        // Parts of emoji, and letters that are written from right to left, are no controls.
        for plain in ["", "👨\u{200d}👩", "שלום"] {
            assert!(!has_controls(plain));
            assert_eq!(revealed(plain).into_string(), plain);
        }
    }

    #[test]
    fn markdown_of_hidden_parts_is_blank() {
        let rendered = |text: &str| crate::markdown::render(text, None, &crate::markdown::Budget::default()).unwrap();
        for text in ["", "<img src=x>", "<!-- why -->", "<svg onload=alert(1)>"] {
            assert!(is_blank(&rendered(text)), "{text}");
        }
        for text in ["a", "---", "<b>a</b>"] {
            assert!(!is_blank(&rendered(text)), "{text}");
        }
    }
}
