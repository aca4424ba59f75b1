//! The printed table.

use crate::load::Load;

pub struct Table {
    title: &'static str,
    rows: Vec<[String; 6]>,
}

impl Table {
    pub fn new(title: &'static str) -> Self {
        Table { title, rows: Vec::new() }
    }

    /// Adds a measurement and its rate relative to `base`.
    pub fn row(&mut self, name: &str, load: &Load, base: &Load) {
        self.rows.push([
            name.to_owned(),
            format!("{:.0}", load.per_second()),
            format!("{:.1}", load.megabytes_per_second()),
            format!("{:.2}", load.percentile(0.5)),
            format!("{:.2}", load.percentile(0.99)),
            format!("{:.3}", load.per_second() / base.per_second()),
        ]);
    }

    pub fn print(&self) {
        println!("{}", self.title);
        let [name, rate, bytes, median, tail, ratio] = ["", "req/s", "MB/s", "p50 ms", "p99 ms", "of hello"];
        println!("  {name:<38} {rate:>9} {bytes:>9} {median:>9} {tail:>9} {ratio:>9}");
        for [name, rate, bytes, median, tail, ratio] in &self.rows {
            println!("  {name:<38} {rate:>9} {bytes:>9} {median:>9} {tail:>9} {ratio:>9}");
        }
        println!();
    }
}
