//! User text that the page must show as it is: names of branches and files, lines of code.
//!
//! Characters that steer the direction of writing, and other invisible characters, are replaced by their names.
//! Otherwise a reader would see other letters, or another order, than programs read.

use maud::{Markup, Render, html};

/// Whether a character steers the direction of the text around it, has no width, or shows nothing where letters are.
/// Spaces and line ends do not count.
fn is_invisible(c: char) -> bool {
    let is_line_or_tab = matches!(c, '\t' | '\n' | '\r');
    let is_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
    let is_filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{17b4}' | '\u{17b5}');
    let is_format = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}'
            | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
    );
    (c.is_control() && !is_line_or_tab) || is_direction || is_filler || is_format
}

/// Whether an invisible character is a part of the writing around it. It is a joiner between emoji or in scripts that
/// join letters, or the variant of an emoji.
fn is_part_of_writing(c: char, before: char, after: Option<char>) -> bool {
    let joins_letters = |c: char| matches!(c, '\u{600}'..='\u{10ff}' | '\u{1780}'..='\u{1cff}');
    match c {
        '\u{200c}' => joins_letters(before),
        '\u{200d}' if joins_letters(before) => true,
        '\u{200d}' => (is_emoji(before) || before == '\u{fe0f}') && after.is_some_and(is_emoji),
        '\u{fe0e}' | '\u{fe0f}' => {
            is_emoji(before) || (matches!(before, '0'..='9' | '#' | '*') && after == Some('\u{20e3}'))
        }
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    let is_sign = matches!(
        c,
        '©' | '®'
            | '\u{203c}'
            | '\u{2049}'
            | '\u{2122}'
            | '\u{2139}'
            | '\u{3030}'
            | '\u{303d}'
            | '\u{3297}'
            | '\u{3299}'
    );
    let is_symbol = matches!(c, '\u{2190}'..='\u{21ff}' | '\u{2300}'..='\u{27bf}' | '\u{2900}'..='\u{2bff}');
    is_sign || is_symbol || matches!(c, '\u{1f000}'..='\u{1faff}')
}

/// The characters to name, each with the byte at which it begins.
fn controls(text: &str) -> impl Iterator<Item = (usize, char)> {
    let after = text.chars().skip(1).map(Some).chain([None]);
    let mut last = '\0';
    text.char_indices().zip(after).filter_map(move |((at, c), after)| {
        let before = std::mem::replace(&mut last, c);
        (is_invisible(c) && !is_part_of_writing(c, before, after)).then_some((at, c))
    })
}

/// Whether a text has characters that [`revealed`] names.
pub fn has_controls(text: &str) -> bool {
    controls(text).next().is_some()
}

/// The text, with the names of invisible characters in their place.
pub fn revealed(text: &str) -> Markup {
    let controls: Vec<_> = controls(text).collect();
    let starts = controls.iter().map(|(at, control)| at + control.len_utf8());
    let starts: Vec<_> = [0].into_iter().chain(starts).collect();
    html! {
        @for (start, (end, control)) in starts.iter().zip(&controls) {
            (text.get(*start..*end).unwrap_or_default())
            span.control { (format!("U+{:04X}", u32::from(*control))) }
        }
        (starts.last().and_then(|start| text.get(*start..)).unwrap_or_default())
    }
}

/// The most bytes that [`revealed`] makes of a text.
pub fn revealed_size(text: &str) -> usize {
    const ESCAPED: usize = "&quot;".len();
    const NAMED: usize = r#"<span class="control">U+10FFFF</span>"#.len();
    let escaped = text.bytes().filter(|byte| matches!(byte, b'&' | b'<' | b'>' | b'"')).count();
    text.len() + escaped * ESCAPED + controls(text).count() * NAMED
}

/// A name that programs use, such as a branch's.
pub fn code(name: &str) -> Markup {
    html! { code { bdi { (revealed(name)) } } }
}

/// Whether rendered Markdown shows nothing.
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
        let expected = "a<span class=\"control\">U+202E</span>&lt;b&gt;<span class=\"control\">U+061C</span>";
        assert_eq!(revealed("a\u{202e}<b>\u{61c}").into_string(), expected);
        for control in ['\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{200f}', '\u{61c}'] {
            assert!(has_controls(&format!("a{control}b")), "{control:?}");
        }
        // Parts of emoji, letters that are written from right to left and joined letters are no controls.
        for plain in [
            "",
            "a b\tc\r\n",
            "👨\u{200d}👩",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "שלום",
            "می\u{200c}خواهم",
            "한글",
        ] {
            assert!(!has_controls(plain), "{plain}");
            assert_eq!(revealed(plain).into_string(), plain);
        }
    }

    #[test]
    fn characters_that_show_nothing_are_named() {
        let zero_width =
            "\u{ad}\u{200b}\u{200c}\u{200d}\u{2028}\u{2060}\u{2064}\u{fe00}\u{fe0f}\u{feff}\u{e0041}\u{e0100}";
        let fillers = "\u{1b}\u{115f}\u{1160}\u{3164}\u{ffa0}";
        for hidden in zero_width.chars().chain(fillers.chars()) {
            let name = format!("a<span class=\"control\">U+{:04X}</span>b", u32::from(hidden));
            assert_eq!(revealed(&format!("a{hidden}b")).into_string(), name);
        }
        assert!(has_controls("👨\u{200d}a") && has_controls("1\u{fe0f}"));
        assert_eq!(revealed("\u{200b}").into_string(), "<span class=\"control\">U+200B</span>");
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
