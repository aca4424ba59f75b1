//! `hexad validate`: whether a manifest and its components could be served.

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Error, Result, anyhow};
use bytesize::ByteSize;
use clap::Args;
use hexad_host::validation::{ValidComponent, ValidationOptions, validate};
use hexad_manifest::{self as manifest, LoadOptions, MaintenanceTokens, Manifest, ManifestError, sharing_notes};

use super::policy::PolicyArgs;
use super::secrets::SecretArgs;
use super::terminal::{one_line, printable};
use super::values::parse_external_url;

/// Check whether a host would serve a manifest and its components, or swap in a file. The command needs no host. It
/// fails if not, and names every reason.
///
/// Variables get their values from the environment and files of secrets. Only a running host checks whether components
/// can read the stored data.
#[derive(Args)]
pub struct Validate {
    /// The application's manifest.
    #[arg(value_name = "MANIFEST", default_value = manifest::FILE_NAME)]
    manifest: PathBuf,

    /// Check whether `hexad swap` could serve FILE as this component of the manifest.
    #[arg(long, value_name = "ID", requires = "file")]
    component: Option<String>,

    /// The file to be swapped in.
    #[arg(long, value_name = "FILE", requires = "component")]
    file: Option<PathBuf>,

    /// The URL under which clients reach the host.
    #[arg(long, value_name = "URL", value_parser = parse_external_url)]
    external_url: Option<String>,

    /// The memory of the host, as for `hexad up`.
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,

    #[command(flatten)]
    secrets: SecretArgs,

    #[command(flatten)]
    policy: PolicyArgs,
}

impl Validate {
    pub fn run(self) -> Result<()> {
        let secrets = self.secrets.read()?;
        let options = LoadOptions {
            environment: &|name: &str| secrets.get(name),
            external_url: self.external_url.as_deref(),
            maintenance_every: None,
            maintenance_tokens: &MaintenanceTokens::default(),
        };
        let manifest = match Manifest::load_with(&self.manifest, &options) {
            Err(ManifestError::Invalid { path, reasons }) => {
                reasons.iter().for_each(print_problem);
                return Err(failure(&path, reasons.len()));
            }
            manifest => manifest?,
        };
        secrets.check_all_read()?;
        let routes = manifest.routes.len();
        let mut notes = sharing_notes(manifest.components.iter());
        notes.extend(manifest.former_names.iter().cloned());
        let options = ValidationOptions {
            replacement: self.component.zip(self.file),
            policy: self.policy.policy(),
            memory: self.memory.map(|size| size.0),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        };
        let results = validate(manifest, &options)?;
        let (mut out, mut problems) = (std::io::stdout(), 0);
        for result in &results {
            match result {
                Ok(component) => writeln!(out, "{}", line(component))?,
                Err(error) => {
                    problems += 1;
                    print_problem(error);
                }
            }
        }
        for note in notes.iter().filter(|_| options.replacement.is_none()) {
            writeln!(out, "note: {}", printable(note))?;
        }
        let path = self.manifest.display();
        match (problems, &options.replacement) {
            (0, None) => writeln!(
                out,
                "{path}: {} and {} can be served",
                counted(results.len(), "component"),
                counted(routes, "route")
            )?,
            (0, Some(_)) => {}
            (problems, _) => return Err(failure(&self.manifest, problems)),
        }
        Ok(())
    }
}

fn print_problem(problem: impl Display) {
    // Without a reader, the exit status still shows the failure.
    let _ = writeln!(std::io::stderr(), "hexad: {}", one_line(&anyhow!("{problem}")));
}

fn failure(manifest: &Path, problems: usize) -> Error {
    let path = manifest.display();
    match problems {
        1 => anyhow!("{path} has a problem"),
        problems => anyhow!("{path} has {problems} problems"),
    }
}

fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

fn line(component: &ValidComponent) -> String {
    let ValidComponent { id, digest, bytes, version, stubs } = component;
    let version = version.as_ref().map_or_else(|| "no area".to_owned(), |version| printable(version));
    let stubs = match stubs.as_slice() {
        [] => String::new(),
        stubs => format!("; a host does not supply these imports, and a call of them fails: {}", stubs.join(", ")),
    };
    format!("component `{id}`: {version}, sha256 {digest}, {}{}", ByteSize(*bytes as u64), printable(&stubs))
}
