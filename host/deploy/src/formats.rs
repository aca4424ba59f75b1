//! Which components may serve on one store together: each reads every format that another one writes.

use std::sync::Arc;

use hexad_runtime::component::{ComponentService, Revision};
use hexad_store::Backend;
use serde::{Deserialize, Serialize};

use super::fleet::{Fleet, FleetHost};
use super::{DeployError, Deployer};

/// The formats of records that a component reads and writes below a key prefix. This is a stored format: a host reports it to the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Formats {
    pub component: String,
    /// The label of the store.
    pub store: String,
    pub prefix: String,
    pub reads: Vec<u32>,
    #[serde(default)]
    pub writes: Option<u32>,
}

/// One component would write what another one cannot read.
#[derive(Debug, thiserror::Error)]
#[error("component `{writer}`: it writes format {format} below `{prefix}`, and {reader} does not read that; {remedy}")]
pub struct Mixture {
    writer: String,
    format: u32,
    prefix: String,
    reader: String,
    remedy: String,
}

/// Where the reader of a mixture serves.
#[derive(Clone, Copy)]
enum Place<'a> {
    Here,
    /// On another host of the store.
    Host(&'a str),
    /// On another host, whose build does not report what its components read.
    SilentHost(&'a str),
}

/// The formats of a revision.
pub fn of(service: &ComponentService, revision: &Revision) -> Vec<Formats> {
    let settings = &service.deployment().settings;
    let labels = settings.component.grants.labels();
    let of_store = |store: &str| {
        let storages = revision.storages().iter();
        let (component, store) = (service.id(), store.to_owned());
        let formats = storages.map(move |storage| Formats {
            component: component.to_owned(),
            store: store.clone(),
            prefix: storage.prefix.clone(),
            reads: storage.reads.clone(),
            writes: storage.writes,
        });
        formats.collect::<Vec<_>>()
    };
    labels.flat_map(of_store).collect()
}

/// The formats of the components that serve, except of one.
pub fn serving(services: &[ComponentService], except: Option<&str>) -> Vec<Formats> {
    let others = services.iter().filter(|service| Some(service.id()) != except);
    let mut formats = Vec::new();
    for service in others {
        let deployment = service.deployment();
        let canary = deployment.canary.as_ref().map(|canary| &canary.revision);
        for revision in [Some(&deployment.current), canary].into_iter().flatten() {
            formats.extend(of(service, revision));
        }
    }
    formats
}

/// Refuses two lists of components of which one writes what the other does not read.
fn check(ours: &[Formats], theirs: &[Formats], place: Place<'_>) -> Result<(), Mixture> {
    let pairs = |writers: &[Formats], readers: &[Formats], place| {
        writers.iter().try_for_each(|writer| check_writer(writer, readers, place))
    };
    pairs(ours, theirs, place)?;
    pairs(theirs, ours, Place::Here)
}

fn check_writer(writer: &Formats, readers: &[Formats], place: Place<'_>) -> Result<(), Mixture> {
    let Some(format) = writer.writes else { return Ok(()) };
    let shares = |reader: &&Formats| (&reader.store, &reader.prefix) == (&writer.store, &writer.prefix);
    match readers.iter().filter(shares).find(|reader| !reader.reads.contains(&format)) {
        None => Ok(()),
        Some(reader) => Err(Mixture::new(&writer.component, (&writer.prefix, format), &reader.component, place)),
    }
}

impl Mixture {
    fn new(writer: &str, (prefix, format): (&str, u32), reader: &str, place: Place<'_>) -> Self {
        let swap = format!("run `hexad swap {reader}` there with this version");
        let (reader, remedy) = match place {
            Place::Here if writer == reader => {
                ("its active version".to_owned(), "deploy it by `hexad swap` without a canary".to_owned())
            }
            Place::Here => (format!("`{reader}`"), format!("first swap in a version of `{reader}` that does")),
            Place::Host(host) => (format!("`{reader}` on the host {host}"), format!("{swap} first")),
            Place::SilentHost(host) => (
                format!("the host {host}, of an earlier build,"),
                format!("{swap}, or stop that host, and start again"),
            ),
        };
        Self { writer: writer.to_owned(), format, prefix: prefix.to_owned(), reader, remedy }
    }
}

/// Refuses components of which one writes what another one does not read.
pub fn check_start(services: &[ComponentService]) -> Result<(), Mixture> {
    let all = serving(services, None);
    check(&all, &all, Place::Here)
}

/// Refuses components that cannot serve beside those of the other live hosts. This host has reported its own, so of two
/// hosts that start at once, one sees the other.
pub fn check_hosts(
    services: &[ComponentService],
    (fleet, hosts): (&Fleet, &[FleetHost]),
    backends: &[Arc<dyn Backend>],
) -> Result<(), DeployError> {
    let ours = serving(services, None);
    for host in hosts.iter().filter(|host| host.is_live() && host.instance != fleet.instance) {
        if let Some(theirs) = &host.report.formats {
            check(&ours, theirs, Place::Host(&host.name))?;
            continue;
        }
        for service in services {
            // An earlier build reads the first format, and what is stored already.
            let unwritten = service.current().unwritten_format(&service.deployment().settings.component, backends)?;
            if let Some((prefix, format)) = unwritten {
                return Err(
                    Mixture::new(service.id(), (&prefix, format), service.id(), Place::SilentHost(&host.name)).into()
                );
            }
        }
    }
    Ok(())
}

impl Deployer {
    /// Refuses a revision that cannot read what is stored, or cannot serve beside the others. A canary serves beside the
    /// active revision, too.
    pub(super) fn check_formats(
        &self,
        service: &ComponentService,
        revision: &Revision,
        is_canary: bool,
    ) -> Result<(), DeployError> {
        let settings = service.deployment().settings.clone();
        revision.check_formats(&settings.component, self.application().backends())?;
        let except = (!is_canary).then(|| service.id());
        check(&of(service, revision), &serving(self.application().services(), except), Place::Here)?;
        Ok(())
    }
}
