//! A file that is being received.

use super::blob;
use super::chunk::CHUNK;
use super::key::Key;
use super::upload::{Upload, UploadRecord};
use crate::checksum::Checksum;
use crate::integrity::Integrity;
use crate::publisher::Publisher;
use kit::store::StoreError;
use kit::{Env, Timestamp};

/// Cuts a file into chunks, and writes a full chunk when more bytes follow. So a file of one chunk is not written
/// before the publication is accepted. No record names the chunks before [`Staging::commit`].
pub struct Staging {
    env: Env,
    id: String,
    pending: Vec<u8>,
    size: u64,
    checksums: Vec<Checksum>,
}

impl Staging {
    pub fn new(env: &Env) -> Self {
        Staging { env: env.clone(), id: env.id(), pending: Vec::new(), size: 0, checksums: Vec::new() }
    }

    /// When the request began.
    pub fn began(&self) -> Timestamp {
        self.env.now
    }

    /// The upload's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn write(&mut self, mut piece: &[u8]) -> Result<(), StoreError> {
        self.size += piece.len() as u64;
        while !piece.is_empty() {
            if self.pending.len() == CHUNK {
                self.write_chunk()?;
            }
            let (head, rest) = piece.split_at(piece.len().min(CHUNK - self.pending.len()));
            self.pending.extend_from_slice(head);
            piece = rest;
        }
        Ok(())
    }

    fn write_chunk(&mut self) -> Result<(), StoreError> {
        let number = self.checksums.len();
        self.env.store.set(&Key::Chunk(&self.id, number).to_string(), &self.pending)?;
        self.checksums.push(Checksum::of(&self.pending));
        self.pending.clear();
        Ok(())
    }

    /// Writes the last chunk and the upload's record. Committing again writes nothing.
    pub fn commit(
        &mut self,
        integrity: Integrity,
        publisher: &Publisher,
        tag: &str,
        further_tags: Vec<String>,
    ) -> Result<(), StoreError> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.write_chunk()?;
        let upload = Upload {
            size: self.size,
            integrity,
            publisher: publisher.clone(),
            created: self.env.now,
            checksums: self.checksums.clone(),
            tag: Some(tag.to_owned()),
            further_tags,
        };
        let key = Key::Upload(&self.id);
        let record = serde_json::to_vec(&UploadRecord::from(&upload))
            .map_err(|why| StoreError::corrupt(&key.to_string(), why))?;
        blob::write(&self.env, &key, record.into())
    }

    /// Removes the chunks of a file that is not published. If the removal fails, they stay as garbage, whose age the
    /// key shows.
    pub fn discard(self) {
        for number in 0..self.checksums.len() {
            if self.env.store.delete(&Key::Chunk(&self.id, number).to_string()).is_err() {
                return;
            }
        }
    }
}
