//! One program: a program whose own file carries an application, and `hexad bundle`, which makes it.
//!
//! At the end of the program's file are an archive (tar, zstd) and a trailer:
//!
//! | part | bytes |
//! |---|---|
//! | the archive: `application/` with the manifest and its components, `code/<digest>` with compiled code | any |
//! | the length of the archive, little-endian | 8 |
//! | the SHA-256 digest of the archive | 32 |
//! | [`MAGIC`] | 8 |

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::Args;
use hexad_deploy::Signature;
use hexad_manifest::{self as manifest, Component, LoadOptions, MaintenanceTokens, Manifest};
use hexad_runtime::engine::{Runtime, compile_for_baseline};
use hexad_support::bounded_file::read_component;
use hexad_support::digest::Digest;
use hexad_support::private_files;

use super::secrets::SecretArgs;
use super::terminal::announce;

/// The last bytes of a program with an application. The number is the version of the layout.
const MAGIC: &[u8; 8] = b"hexada\0\x01";

/// A third less than by gzip's best.
const COMPRESSION: i32 = 19;

const TRAILER: u64 = 8 + 32 + 8;

/// In a data folder: the applications that programs have unpacked, by the digests of their archives.
const FOLDER: &str = "bundle";

const APPLICATION: &str = "application";
const CODE: &str = "code";

/// The archive at the end of a program.
pub struct Bundle {
    program: File,
    start: u64,
    digest: Digest,
}

impl Bundle {
    /// The archive of the program that runs; `None` if it carries none.
    pub fn of_this_program() -> io::Result<Option<Self>> {
        let mut program = this_program()?;
        let end = program.metadata()?.len();
        let Some(trailer_at) = end.checked_sub(TRAILER) else { return Ok(None) };
        program.seek(SeekFrom::Start(trailer_at))?;
        let (mut length, mut digest, mut magic) = ([0; 8], [0; 32], [0; 8]);
        program.read_exact(&mut length)?;
        program.read_exact(&mut digest)?;
        program.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Ok(None);
        }
        let start = trailer_at.checked_sub(u64::from_le_bytes(length));
        let start = start.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its trailer is damaged"))?;
        Ok(Some(Self { program, start, digest: Digest::from(digest) }))
    }

    /// Unpacks the application into the data folder, and the compiled code into the runtime's cache, unless an earlier
    /// start has done so. Returns the path of the manifest.
    pub fn unpack(mut self, data: &Path, runtime: &Runtime) -> Result<PathBuf> {
        let folder = data.join(FOLDER).join(self.digest.to_string());
        let path = folder.join(APPLICATION).join(manifest::FILE_NAME);
        if path.exists() {
            return Ok(path);
        }
        self.try_unpack(&folder, runtime).with_context(|| {
            format!(
                "cannot unpack the application of this program into {}; free space there, or install the program again",
                folder.display()
            )
        })?;
        Ok(path)
    }

    fn try_unpack(&mut self, folder: &Path, runtime: &Runtime) -> Result<()> {
        let archive = self.read()?;
        let all = folder.parent().unwrap_or(folder);
        private_files::create_folder(all)?;
        // Applications of earlier programs, and what a killed host has left. Running hosts have read their files.
        for entry in fs::read_dir(all)? {
            fs::remove_dir_all(entry?.path())?;
        }
        let unfinished = folder.with_extension("new");
        private_files::create_folder(&unfinished)?;
        let mut archive = tar::Archive::new(zstd::Decoder::new(&*archive)?);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let path = entry.path()?.into_owned();
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            let digest = path.strip_prefix(CODE).ok().and_then(Path::to_str).and_then(|name| name.parse().ok());
            if let Some(digest) = digest {
                // SAFETY: the code is in the file of the program that runs, and has the digest that was written with it.
                unsafe { runtime.adopt(&digest, &content) };
                continue;
            }
            let path = unfinished.join(plain(&path).context("its archive is damaged")?);
            private_files::create_folder(path.parent().unwrap_or(&unfinished))?;
            private_files::replace(&path, &[&content])?;
        }
        private_files::rename_durably(&unfinished, folder)?;
        Ok(())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let length = self.program.metadata()?.len().saturating_sub(self.start + TRAILER);
        self.program.seek(SeekFrom::Start(self.start))?;
        let mut archive = Vec::new();
        Read::by_ref(&mut self.program).take(length).read_to_end(&mut archive)?;
        match Digest::of(&archive) == self.digest {
            true => Ok(archive),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the program's file is damaged")),
        }
    }
}

/// The path, if it leads nowhere but below a folder.
fn plain(path: &Path) -> Option<&Path> {
    path.components().all(|part| matches!(part, std::path::Component::Normal(_))).then_some(path)
}

fn this_program() -> io::Result<File> {
    File::open("/proc/self/exe")
}

/// Make a program that carries an application: its manifest, its components and their compiled code. The new program is
/// this one, and serves the application wherever there is no other manifest.
///
/// Variables keep the values of the manifest: they get others where the new program runs.
#[derive(Args)]
pub struct MakeBundle {
    /// The application's manifest. Its components must be files below its folder.
    #[arg(value_name = "MANIFEST", default_value = manifest::FILE_NAME)]
    manifest: PathBuf,

    /// The new program.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    #[command(flatten)]
    secrets: SecretArgs,
}

impl MakeBundle {
    pub fn run(self) -> Result<()> {
        let secrets = self.secrets.read()?;
        let options = LoadOptions {
            environment: &|name: &str| secrets.get(name),
            external_url: None,
            maintenance_every: None,
            maintenance_tokens: &MaintenanceTokens::default(),
        };
        let manifest = Manifest::load_with(&self.manifest, &options)?;
        let archive = self.archive(&manifest)?;
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let in_output = || format!("cannot write {}", self.output.display());
        let mut output = tempfile::NamedTempFile::new_in(folder).with_context(in_output)?;
        let program = match Bundle::of_this_program()? {
            Some(bundle) => bundle.start,
            None => this_program()?.metadata()?.len(),
        };
        io::copy(&mut this_program()?.take(program), &mut output).with_context(in_output)?;
        let (length, digest) = ((archive.len() as u64).to_le_bytes(), Digest::of(&archive));
        for part in [&archive[..], &length, digest.as_bytes(), MAGIC] {
            output.write_all(part).with_context(in_output)?;
        }
        output.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
        private_files::rename_durably(output.path(), &self.output).with_context(in_output)?;
        let (path, components) = (self.output.display(), manifest.components.len());
        announce(&format!("{path} carries the application `{}` with {components} components\n", manifest.name));
        Ok(())
    }

    fn archive(&self, manifest: &Manifest) -> Result<Vec<u8>> {
        let mut archive = tar::Builder::new(zstd::Encoder::new(Vec::new(), COMPRESSION)?);
        let mut add = |path: &Path, content: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o600);
            archive.append_data(&mut header, path, content)
        };
        for component in &manifest.components {
            let (path, wasm) = (self.path_of(component)?, read_component(&component.source)?);
            let digest = Digest::of(&wasm);
            announce(&format!("compiling `{}`\n", component.id));
            let compiled = compile_for_baseline(&wasm).map_err(|error| anyhow!("`{}`: {error:#}", component.id))?;
            add(&Path::new(CODE).join(digest.to_string()), &compiled)?;
            add(&path, &wasm)?;
            let signature = Signature::beside(&component.source);
            if signature.exists() {
                add(&Signature::beside(&path), &fs::read(signature)?)?;
            }
        }
        add(&Path::new(APPLICATION).join(manifest::FILE_NAME), &fs::read(&self.manifest)?)?;
        Ok(archive.into_inner()?.finish()?)
    }

    /// The path of a component in the archive.
    fn path_of(&self, component: &Component) -> Result<PathBuf> {
        let (folder, source) = (self.manifest.parent().unwrap_or(Path::new("")), &component.source);
        let below = source.strip_prefix(folder).ok().and_then(plain);
        let below = below.ok_or_else(|| {
            let (id, source) = (&component.id, source.display());
            anyhow!("component `{id}`: {source} is not below the manifest's folder; move it there")
        })?;
        Ok(Path::new(APPLICATION).join(below))
    }
}
