//! `hexad status`: what a running host serves, and how it does.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;

use super::Failure;
use super::admin::{Ask, Host};

/// How often `--watch` asks.
const REFRESH: Duration = Duration::from_secs(1);

/// Show what a running host serves.
#[derive(Args)]
pub struct Status {
    /// Show it again every second.
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    host: Host,
}

#[derive(Deserialize)]
struct Component {
    id: String,
    state: String,
    #[serde(flatten)]
    current: Served,
    canary: Option<Canary>,
    in_flight: u64,
    waiting: u64,
}

#[derive(Deserialize)]
struct Served {
    version: Option<String>,
    digest: String,
    generation: u64,
}

#[derive(Deserialize)]
struct Canary {
    #[serde(flatten)]
    served: Served,
    percent: f64,
    answers: u64,
    failed: u64,
    seconds_left: f64,
}

impl Status {
    pub fn run(self) -> Result<(), Failure> {
        let mut out = io::stdout();
        loop {
            let components: Vec<Component> = self.host.ask(&Ask::Get, "/components")?;
            if self.watch && out.is_terminal() {
                // To the top left, and nothing below.
                write!(out, "\x1b[H\x1b[J")?;
            }
            write!(out, "{}", table(&components))?;
            out.flush()?;
            if !self.watch {
                return Ok(());
            }
            std::thread::sleep(REFRESH);
        }
    }
}

fn table(components: &[Component]) -> String {
    let head = ["COMPONENT", "VERSION", "GENERATION", "DIGEST", "IN FLIGHT", "WAITING", "STATE"];
    let mut rows = vec![head.map(str::to_owned)];
    for component in components {
        let (in_flight, waiting) = (component.in_flight.to_string(), component.waiting.to_string());
        let [version, generation, digest] = component.current.cells();
        rows.push([component.id.clone(), version, generation, digest, in_flight, waiting, component.state.clone()]);
        if let Some(canary) = &component.canary {
            let [version, generation, digest] = canary.served.cells();
            let state = format!(
                "canary: {} %, {} answers, {} failed, {:.0} s left",
                canary.percent, canary.answers, canary.failed, canary.seconds_left
            );
            rows.push(["".to_owned(), version, generation, digest, "".to_owned(), "".to_owned(), state]);
        }
    }
    let mut widths = [0; 7];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

impl Served {
    fn cells(&self) -> [String; 3] {
        let short = self.digest.get(..12).unwrap_or(&self.digest);
        [self.version.clone().unwrap_or_else(|| "-".to_owned()), self.generation.to_string(), short.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_a_canary_has_its_own_line() {
        let text = r#"[{"id":"registry","state":"canary","version":"0.1.0","digest":"0123456789abcdef","generation":3,
            "in_flight":2,"waiting":0,"new":1,
            "canary":{"version":"0.2.0","digest":"fedcba9876543210","generation":4,"percent":5.0,"answers":7,"failed":1,"seconds_left":12.4}}]"#;
        let components: Vec<Component> = serde_json::from_str(text).unwrap();
        let table = table(&components);
        assert_eq!(
            table.lines().collect::<Vec<_>>(),
            [
                "COMPONENT  VERSION  GENERATION  DIGEST        IN FLIGHT  WAITING  STATE",
                "registry   0.1.0    3           0123456789ab  2          0        canary",
                "           0.2.0    4           fedcba987654                      canary: 5 %, 7 answers, 1 failed, 12 s left",
            ]
        );
    }
}
