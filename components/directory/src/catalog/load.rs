//! Reads the catalog. An instance caches its tables and reads only the parts that it does not have.

use super::manifest::{Part, Root, blob, manifest};
use super::snapshot::Catalog;
use super::table::{Namespaces, Projects, Table};
use super::tree::Tree;
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use std::rc::Rc;

/// How often a reader tries that is slower than [`super::intent_log`] keeps a revision's blobs.
const ATTEMPTS: usize = 5;

/// The catalog. 1 read, and one for each part that changed since this instance last read it.
pub fn read(env: &Env) -> Result<Rc<Catalog>, StoreError> {
    let known = env.instance_cache.get::<Catalog>();
    let mut last_error = None;
    for _ in 0..ATTEMPTS {
        let revision = store::read::<Root>(env, &Key::Catalog)?.map_or(String::new(), |root| root.revision);
        if let Some(known) = known.as_ref().filter(|known| *known.revision == *revision) {
            return Ok(known.clone());
        }
        match load(env, &revision, known.as_deref()) {
            Ok(catalog) => {
                let catalog = Rc::new(catalog);
                env.instance_cache.put(catalog.clone());
                return Ok(catalog);
            }
            Err(error) => last_error = Some(error),
        }
    }
    Err(last_error.unwrap_or_else(|| StoreError::Contended(Key::Catalog.to_string())))
}

fn load(env: &Env, revision: &str, known: Option<&Catalog>) -> Result<Catalog, StoreError> {
    let manifest = manifest(env, revision)?;
    let known = known.map(|known| (known, &*known.manifest));
    let namespaces: Rc<Namespaces> =
        table(env, &manifest.namespaces, known.map(|(known, of)| (&known.namespaces, &of.namespaces)))?;
    let projects: Rc<Projects> =
        table(env, &manifest.projects, known.map(|(known, of)| (&known.projects, &of.projects)))?;
    let same =
        known.filter(|(known, _)| Rc::ptr_eq(&known.namespaces, &namespaces) && Rc::ptr_eq(&known.projects, &projects));
    let tree = match same {
        Some((known, _)) => known.tree.clone(),
        None => Rc::new(Tree::of(&namespaces, &projects)),
    };
    Ok(Catalog { revision: revision.into(), manifest: Rc::new(manifest), namespaces, projects, tree })
}

/// A table of these parts. Parts that the known table has are copied from it.
fn table<T: Table>(env: &Env, parts: &[Part], known: Option<(&Rc<T>, &Vec<Part>)>) -> Result<Rc<T>, StoreError> {
    if let Some((known, of)) = known
        && of == parts
    {
        return Ok(known.clone());
    }
    let mut table = T::default();
    for part in parts {
        let mut start = 0;
        let copied = known.and_then(|(known, of)| {
            let found = of.iter().find(|old| {
                let found = old.blob == part.blob;
                start += if found { 0 } else { old.rows };
                found
            })?;
            Some((known, start..start + found.rows))
        });
        match copied {
            Some((known, rows)) => table.copy(known, rows),
            None => {
                let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
                table.append(&blob(env, &part.blob)?).ok_or_else(corrupt)?;
            }
        }
    }
    Ok(Rc::new(table))
}
