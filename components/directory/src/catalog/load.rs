//! Reads the catalog. An instance caches its tables and reads only the missing parts.

use super::manifest::{Part, Root, blob, manifest};
use super::snapshot::Catalog;
use super::table::{Namespaces, Projects, Table};
use super::tree::Tree;
use crate::store::{self, Key};
use kit::Env;
use kit::store::StoreError;
use std::rc::Rc;

/// The most attempts of a reader that is slower than [`super::intent_log`] retains a revision's blobs.
const MAX_ATTEMPTS: usize = 5;

/// The catalog. 1 read, and 1 for each part that changed since this instance last read it.
pub fn read(env: &Env) -> Result<Rc<Catalog>, StoreError> {
    let cached = env.instance_cache.get::<Catalog>();
    let mut last_error = None;
    for _ in 0..MAX_ATTEMPTS {
        let revision = store::read::<Root>(env, &Key::Catalog)?.map_or(String::new(), |root| root.revision);
        if let Some(cached) = cached.as_ref().filter(|cached| *cached.revision == *revision) {
            return Ok(cached.clone());
        }
        match load(env, &revision, cached.as_deref()) {
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

fn load(env: &Env, revision: &str, cached: Option<&Catalog>) -> Result<Catalog, StoreError> {
    let manifest = manifest(env, revision)?;
    let cached = cached.map(|cached| (cached, &*cached.manifest));
    let namespaces: Rc<Namespaces> =
        table(env, &manifest.namespaces, cached.map(|(cached, of)| (&cached.namespaces, &of.namespaces)))?;
    let projects: Rc<Projects> =
        table(env, &manifest.projects, cached.map(|(cached, of)| (&cached.projects, &of.projects)))?;
    let same = cached
        .filter(|(cached, _)| Rc::ptr_eq(&cached.namespaces, &namespaces) && Rc::ptr_eq(&cached.projects, &projects));
    let tree = match same {
        Some((cached, _)) => cached.tree.clone(),
        None => Rc::new(Tree::of(&namespaces, &projects)),
    };
    Ok(Catalog { revision: revision.into(), manifest: Rc::new(manifest), namespaces, projects, tree })
}

/// The table of these parts. Parts of the cached table are copied.
fn table<T: Table>(env: &Env, parts: &[Part], cached: Option<(&Rc<T>, &Vec<Part>)>) -> Result<Rc<T>, StoreError> {
    if let Some((cached, of)) = cached
        && of == parts
    {
        return Ok(cached.clone());
    }
    let mut table = T::default();
    for part in parts {
        let mut start = 0;
        let copied = cached.and_then(|(cached, of)| {
            let found = of.iter().find(|old| {
                let found = old.blob == part.blob;
                start += if found { 0 } else { old.rows };
                found
            })?;
            Some((cached, start..start + found.rows))
        });
        match copied {
            Some((cached, rows)) => table.copy(cached, rows),
            None => {
                let corrupt = || StoreError::corrupt(&Key::CatalogBlob(&part.blob).to_string(), "no such rows");
                table.append(&blob(env, &part.blob)?).ok_or_else(corrupt)?;
            }
        }
    }
    Ok(Rc::new(table))
}
