//! Tables.

use maud::{Markup, html};

/// A column of a table.
pub struct Column<'a> {
    title: &'a str,
    has_numbers: bool,
}

impl<'a> Column<'a> {
    pub fn text(title: &'a str) -> Self {
        Column { title, has_numbers: false }
    }

    /// Numbers stand at the right, so that their digits are below one another.
    pub fn numbers(title: &'a str) -> Self {
        Column { title, has_numbers: true }
    }
}

/// A table that scrolls by itself where it is wider than the page, with the keyboard too. `label` says what
/// it is for those who do not see it; `rows` are its `tr`.
pub fn table(label: &str, columns: &[Column<'_>], rows: Markup) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table {
                thead {
                    tr {
                        @for column in columns {
                            th.number[column.has_numbers] scope="col" { bdi { (column.title) } }
                        }
                    }
                }
                tbody { (rows) }
            }
        }
    }
}
