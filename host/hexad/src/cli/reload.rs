//! The files that the host reads again on SIGHUP: the manifest on one thread, certificates and access log on another. A
//! slow file, or a component that is being compiled, delays neither other files nor signals.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use hexad_host::host::Reloader;
use hexad_manifest::{LoadOptions, MaintenanceTokens, Manifest, ManifestError};
use hexad_runtime::ingress::Ingress;
use hexad_support::serving_threads::survive;

/// Values of variables, for as long as the host serves.
type OwnedEnvironment = Box<dyn Fn(&str) -> Option<String> + Send>;

/// The path of the manifest, those of added ones, and the values that they are read with.
pub struct ManifestSource {
    pub path: PathBuf,
    pub added: Vec<PathBuf>,
    pub environment: OwnedEnvironment,
    pub external_url: Option<String>,
    pub maintenance_every: Option<Duration>,
    pub maintenance_tokens: MaintenanceTokens,
}

impl ManifestSource {
    pub fn load(&self) -> Result<Manifest, ManifestError> {
        let options = LoadOptions {
            environment: &self.environment,
            external_url: self.external_url.as_deref(),
            maintenance_every: self.maintenance_every,
            maintenance_tokens: &self.maintenance_tokens,
        };
        let mut manifest = Manifest::load_with(&self.path, &options)?;
        for added in &self.added {
            manifest.add(Manifest::load_with(added, &options)?)?;
        }
        Ok(manifest)
    }
}

/// The threads. They end with the process, also while they wait for a file.
pub struct Reloads {
    manifest: SyncSender<()>,
    ingress: SyncSender<()>,
}

impl Reloads {
    pub fn start(source: ManifestSource, reloader: Reloader, ingress: Arc<Ingress>) -> io::Result<Self> {
        let manifest = start_thread("reload-manifest", move || {
            // The host logs why a manifest is refused.
            if let Ok(reloaded) = reloader.reload(source.load()) {
                tracing::info!(changes = %reloaded, "the manifest was read again");
            }
        })?;
        let ingress = start_thread("reload-ingress", move || ingress.reload())?;
        Ok(Self { manifest, ingress })
    }

    /// Begins to read everything again. It does not block.
    pub fn begin(&self) {
        for thread in [&self.manifest, &self.ingress] {
            // A full channel has a message whose work begins after this call.
            let _ = thread.try_send(());
        }
    }
}

/// Does the work for each message. Messages that arrive during the work count as one.
fn start_thread(name: &str, mut work: impl FnMut() + Send + 'static) -> io::Result<SyncSender<()>> {
    let (sender, messages) = sync_channel(1);
    let thread = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        while let Ok(()) = messages.recv() {
            survive(&thread, &mut work);
        }
    })?;
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, RecvTimeoutError};

    use super::*;
    use hexad_testing::wait::SOON;

    #[test]
    fn requests_during_the_work_repeat_it_once() {
        let (begin, began) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let thread = start_thread("test", move || {
            begin.send(()).unwrap();
            ended.recv_timeout(SOON).unwrap();
        });
        let thread = thread.unwrap();
        thread.try_send(()).unwrap();
        began.recv_timeout(SOON).unwrap();
        assert!(thread.try_send(()).is_ok() && thread.try_send(()).is_err());
        end.send(()).unwrap();
        began.recv_timeout(SOON).unwrap();
        end.send(()).unwrap();
        drop(thread);
        assert_eq!(began.recv_timeout(SOON), Err(RecvTimeoutError::Disconnected), "twice, and not three times");
    }

    #[test]
    fn work_that_panics_is_begun_again() {
        let (begin, began) = mpsc::channel();
        let thread = start_thread("test", move || {
            begin.send(()).unwrap();
            panic!("a defect");
        });
        let thread = thread.unwrap();
        for _ in 0..2 {
            thread.send(()).unwrap();
            began.recv().unwrap();
        }
    }
}
