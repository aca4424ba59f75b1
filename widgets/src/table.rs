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

    /// A column of numbers. They are aligned right, so that their digits line up.
    pub fn numbers(title: &'a str) -> Self {
        Column { title, has_numbers: true }
    }
}

/// A table. If it is wider than the page, it scrolls within the page, with the keyboard too. `label` names it for
/// screen readers. `rows` has its `tr` elements.
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
