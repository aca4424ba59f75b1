//! The files in the tarball of a version, for people who review it.

use super::access::{self, Read};
use super::error::package_not_found;
use super::request::RegistryRequest;
use crate::merged::MergedPackage;
use crate::store::{self, Upload};
use bytes::{Buf as _, Bytes};
use flate2::read::GzDecoder;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{self, Read as _};
use std::rc::Rc;

/// The most files that a list has.
const MAX_FILES: usize = 5_000;

/// The most bytes that are unpacked for a list. Unpacking them takes about a second.
const MAX_UNPACKED: u64 = 256 << 20;

/// `GET <prefix>/-/package/:package_name/files/:version`: path and size in the order of the tarball, without the
/// top-level folder. Reads: the package, up to an index for each version run, the upload, and its chunks.
pub fn list(request: &RegistryRequest, name: &str, version: &str) -> Result<Response, Error> {
    let env = &request.env;
    let holder = |merged: &MergedPackage| {
        let found = merged.find(|package| store::find_listed(env, package, version))?;
        Ok(found.map_or(merged.first(), |(holder, _)| holder).clone())
    };
    let authorized = access::authorize_chosen::<Read>(request, name, holder, package_not_found)?;
    let entry = store::find_listed(env, &authorized.package, version)?.ok_or_else(package_not_found)?;
    let upload = store::shared_upload(env, &entry.upload)?;
    let failure = Rc::new(RefCell::new(None));
    let (env, id, rest) = (env.clone(), entry.upload, Bytes::new());
    let file = StoredFile { env, id, upload, next: 0, rest, failure: failure.clone() };
    let mut archive = tar::Archive::new(GzDecoder::new(file).take(MAX_UNPACKED));
    let (mut files, mut is_truncated) = (Vec::new(), false);
    for entry in archive.entries().into_iter().flatten() {
        // The end of what is unpacked is an error in the middle of an entry.
        let Some(entry) = entry.ok().filter(|_| files.len() < MAX_FILES) else {
            is_truncated = true;
            break;
        };
        let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let inside = path.split_once('/').map_or(path.as_str(), |(_, inside)| inside);
        if entry.header().entry_type().is_file() {
            files.push(json!({"path": inside, "size": entry.size()}));
        }
    }
    match failure.take() {
        Some(error) => Err(StoreError::into(error)),
        None => Ok(Response::ok(&json!({"files": Value::from(files), "truncated": is_truncated}))),
    }
}

/// A file in the store, chunk by chunk.
struct StoredFile {
    env: Env,
    id: String,
    upload: Rc<Upload>,
    next: usize,
    /// The part of the last chunk that was not read.
    rest: Bytes,
    failure: Rc<RefCell<Option<StoreError>>>,
}

impl io::Read for StoredFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.next < self.upload.chunks() {
            match store::chunk_uncached(&self.env, &self.id, &self.upload, self.next) {
                Ok(chunk) => self.rest = chunk,
                Err(error) => {
                    self.failure.replace(Some(error));
                    return Err(io::ErrorKind::Other.into());
                }
            }
            self.next += 1;
        }
        let length = buffer.len().min(self.rest.len());
        let (read, _) = buffer.split_at_mut(length);
        self.rest.copy_to_slice(read);
        Ok(length)
    }
}
