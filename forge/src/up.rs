//! `hexad up`: the host's command, and the demo.

use anyhow::Result;
use clap::Args;
use hexad::cli::{Serving, Up};

use crate::{demo, token};

/// Serve the application of a manifest.
#[derive(Args)]
pub struct UpWithDemo {
    #[command(flatten)]
    up: Up,

    /// Load a small demo into an empty store, and print its tokens.
    #[arg(long)]
    demo: bool,
}

impl UpWithDemo {
    pub fn run(self) -> Result<()> {
        let secrets = self.up.secrets()?;
        if !self.demo {
            return self.up.run(secrets, None::<fn(Serving)>);
        }
        let bootstrap_token = token::bootstrap(&secrets)?;
        let secrets = secrets.with(token::BOOTSTRAP_TOKEN, bootstrap_token.clone());
        self.up.run(secrets, Some(move |serving: Serving| demo::load(serving, &bootstrap_token)))
    }
}
