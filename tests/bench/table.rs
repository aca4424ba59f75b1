//! The printed table.

use crate::load::Load;

pub struct Table<'a> {
    title: &'static str,
    /// The load that the column `of hello` compares with.
    hello: &'a Load,
    rows: Vec<[String; 7]>,
}

impl<'a> Table<'a> {
    pub fn new(title: &'static str, hello: &'a Load) -> Self {
        Table { title, hello, rows: Vec::new() }
    }

    /// Adds a measurement, and the peer's for the same work.
    pub fn row(&mut self, name: &str, load: &Load, peer: Option<&Load>) {
        self.row_beside(self.hello, name, load, peer);
    }

    /// The same beside another load of the reference, which was measured with it.
    pub fn row_beside(&mut self, hello: &Load, name: &str, load: &Load, peer: Option<&Load>) {
        self.rows.push([
            name.to_owned(),
            format!("{:.0}", load.per_second()),
            format!("{:.1}", load.megabytes_per_second()),
            format!("{:.2}", load.percentile(0.5)),
            format!("{:.2}", load.percentile(0.99)),
            format!("{:.3}", load.per_second() / hello.per_second()),
            peer.map_or("-".into(), |peer| format!("{:.2}", load.per_second() / peer.per_second())),
        ]);
    }

    pub fn print(&self) {
        println!("{}", self.title);
        let head = ["", "req/s", "MB/s", "p50 ms", "p99 ms", "of hello", "× peer"].map(str::to_owned);
        for [name, rate, bytes, median, tail, ratio, peer] in std::iter::once(&head).chain(&self.rows) {
            println!("  {name:<38} {rate:>9} {bytes:>9} {median:>9} {tail:>9} {ratio:>9} {peer:>9}");
        }
        println!();
    }
}
