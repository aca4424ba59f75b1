//! `hexad up`: the host's command, and the demo.

use anyhow::Result;
use clap::Args;
use hexad::cli::{Up, announce};

use crate::{demo, token};

/// Serve the application of a manifest.
#[derive(Args)]
pub struct UpWithDemo {
    #[command(flatten)]
    up: Up,

    /// Load a small demo and print its tokens, unless the store has it already.
    #[arg(long)]
    demo: bool,
}

impl UpWithDemo {
    pub fn run(self) -> Result<()> {
        if !self.demo {
            return self.up.run(|name: &str| std::env::var(name).ok(), |_| Ok(()));
        }
        let bootstrap_token = token::bootstrap()?;
        self.up.run(token::environment_with(bootstrap_token.clone()), |serving| {
            announce(&demo::load(serving, &bootstrap_token)?);
            Ok(())
        })
    }
}
