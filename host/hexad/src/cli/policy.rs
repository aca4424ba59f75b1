//! The options about which components may be served.

use std::path::PathBuf;

use clap::Args;
use hexad_deploy::TrustPolicy;

#[derive(Args)]
pub struct PolicyArgs {
    /// Serve only components whose SHA-256 is in this file (one a line), or that a trusted key has signed. The host
    /// checks at the start and at every swap.
    #[arg(long, value_name = "FILE")]
    allow_digests: Option<PathBuf>,

    /// Serve only components that this Ed25519 public key (PEM) has signed, or that --allow-digests lists. The
    /// signature of a manifest's source is in `<source>.sig`. Can be repeated.
    #[arg(long = "trusted-key", value_name = "FILE")]
    trusted_keys: Vec<PathBuf>,
}

impl PolicyArgs {
    pub fn policy(&self) -> TrustPolicy {
        TrustPolicy { digests: self.allow_digests.clone(), keys: self.trusted_keys.clone() }
    }
}
