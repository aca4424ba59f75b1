//! The options about which components may be served.

use std::path::PathBuf;

use clap::Args;

use crate::deploy::TrustPolicy;

#[derive(Args)]
pub struct PolicyArgs {
    /// Serve only components whose SHA-256 is in this file, one a line, at the start and after
    /// every swap; or that a trusted key has signed.
    #[arg(long, value_name = "FILE")]
    allow_digests: Option<PathBuf>,

    /// Serve only components with a signature of this Ed25519 public key (PEM), which is expected
    /// beside the manifest's sources as `<source>.sig`; or that are listed. Can be repeated.
    #[arg(long = "trusted-key", value_name = "FILE")]
    trusted_keys: Vec<PathBuf>,
}

impl PolicyArgs {
    pub fn policy(&self) -> TrustPolicy {
        TrustPolicy { digests: self.allow_digests.clone(), keys: self.trusted_keys.clone() }
    }
}
