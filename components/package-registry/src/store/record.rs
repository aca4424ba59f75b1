//! The stored records. Their JSON names are a wire format: fields can be added as optional ones,
//! and unknown ones are ignored; anything else is a new format below a new prefix.

use super::Upload;
use crate::integrity::Integrity;
use crate::package::{Package, SegmentRef, Tag};
use crate::version::Version;
use kit::Timestamp;
use kit::store::Fault;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Serialize, Deserialize)]
pub struct PackageRecord {
    revision: u64,
    events: Vec<String>,
    created: Timestamp,
    modified: Timestamp,
    published: Timestamp,
    segments: Vec<SegmentRecord>,
    #[serde(default)]
    tags: BTreeMap<String, TagRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    highest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct SegmentRecord {
    id: String,
    listed: u64,
    size: u64,
}

#[derive(Serialize, Deserialize)]
struct TagRecord {
    version: String,
    at: Timestamp,
}

impl PackageRecord {
    /// `key` is where the record was, for the error.
    pub fn read(self, key: &str) -> Result<Package, Fault> {
        let highest = self.highest.map(|text| {
            Version::parse(&text).ok_or_else(|| Fault::corrupt(key, format!("its highest version is `{text}`")))
        });
        let segment = |record: SegmentRecord| SegmentRef { id: record.id, listed: record.listed, size: record.size };
        let tag = |(tag, record): (String, TagRecord)| (tag, Tag { version: record.version, at: record.at });
        Ok(Package {
            revision: self.revision,
            events: self.events,
            created: self.created,
            modified: self.modified,
            published: self.published,
            segments: self.segments.into_iter().map(segment).collect(),
            tags: self.tags.into_iter().map(tag).collect(),
            highest: highest.transpose()?,
            about: self.about,
        })
    }
}

impl From<&Package> for PackageRecord {
    fn from(package: &Package) -> Self {
        let segment =
            |segment: &SegmentRef| SegmentRecord { id: segment.id.clone(), listed: segment.listed, size: segment.size };
        let tag = |(tag, set): (&String, &Tag)| (tag.clone(), TagRecord { version: set.version.clone(), at: set.at });
        PackageRecord {
            revision: package.revision,
            events: package.events.clone(),
            created: package.created,
            modified: package.modified,
            published: package.published,
            segments: package.segments.iter().map(segment).collect(),
            tags: package.tags.iter().map(tag).collect(),
            highest: package.highest.as_ref().map(Version::to_string),
            about: package.about.clone(),
        }
    }
}

/// The projects that hold a package, or one of a name.
#[derive(Default, Serialize, Deserialize)]
pub struct ProjectsRecord {
    pub projects: Vec<u64>,
}

/// The names of a project's packages.
#[derive(Default, Serialize, Deserialize)]
pub struct ListingRecord {
    pub packages: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
pub struct UploadRecord {
    size: u64,
    integrity: String,
    shasum: String,
    publisher: String,
    created: Timestamp,
    /// XXH3-64 of each chunk, as 16 hexadecimal digits.
    checksums: Vec<String>,
}

impl UploadRecord {
    /// `key` is where the record was, for the error.
    pub fn read(self, key: &str) -> Result<Upload, Fault> {
        let integrity = Integrity::read(&self.integrity, &self.shasum);
        let checksums = self.checksums.iter().map(|digits| u64::from_str_radix(digits, 16));
        Ok(Upload {
            size: self.size,
            integrity: integrity.ok_or_else(|| Fault::corrupt(key, "its digests are malformed"))?,
            publisher: self.publisher,
            created: self.created,
            checksums: checksums.collect::<Result<_, _>>().map_err(|why| Fault::corrupt(key, why))?,
        })
    }
}

impl From<&Upload> for UploadRecord {
    fn from(upload: &Upload) -> Self {
        UploadRecord {
            size: upload.size,
            integrity: upload.integrity.sri(),
            shasum: upload.integrity.shasum(),
            publisher: upload.publisher.clone(),
            created: upload.created,
            checksums: upload.checksums.iter().map(|checksum| format!("{checksum:016x}")).collect(),
        }
    }
}
