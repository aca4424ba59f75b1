//! Parts that the console's pages and the operator's page have in common: tables, charts, numbers, and the
//! stylesheet of all of them.
//!
//! They are made on the server, and need neither scripts nor styles of their own, as a strict content
//! security policy asks for. They know no page, no URL and no data; every text that they are given is escaped.

pub mod chart;
mod quantity;
mod table;

pub use quantity::{age, bytes, duration, number};
pub use table::{Column, table};

/// The stylesheet, `text/css`.
pub const STYLE: &str = include_str!("style.css");

/// The icon, `image/svg+xml`.
pub const ICON: &str = include_str!("icon.svg");
