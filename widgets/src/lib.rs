//! Parts that the pages of the console and of the operator share: tables, charts, numbers and the stylesheet.
//!
//! The server renders them without scripts and inline styles, for a strict content security policy. They know no page,
//! URL or data, and escape every text.

pub mod chart;
mod quantity;
mod table;

pub use quantity::{age, bytes, duration, number};
pub use table::{Column, table};

/// The stylesheet, `text/css`.
pub const STYLE: &str = include_str!("style.css");

/// The icon, `image/svg+xml`.
pub const ICON: &str = include_str!("icon.svg");
