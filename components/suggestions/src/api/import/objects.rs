//! Import of objects.

use super::cat_file::CatFileReader;
use crate::api::access;
use crate::api::context::RequestContext;
use crate::git::{ObjectId, ObjectKind};
use crate::store::objects::{self as store, ObjectWriter};
use crate::store::semispace_roles;
use kit::{Body, Error, Response};
use serde::Serialize;

/// How many objects were imported.
#[derive(Default, Serialize)]
struct ObjectImportReport {
    stored: u64,
    /// Objects that the repository had already.
    known: u64,
}

/// `POST /import/suggestions/:project/objects`. The body is the output of `git cat-file --batch`: for each
/// object `<id> <type> <size>`, LF, the contents, LF. 400 if the contents of an object have another id; the
/// objects before it stay. Memory is bounded. 1 read for each object, and 1 write for a new one (1 more for
/// each MiB of a large one).
pub async fn objects(context: &mut RequestContext, project: &str, body: Body) -> Result<Response, Error> {
    let (env, repository) = (&context.env.clone(), access::importable_repository(context, project)?);
    let mut reader = CatFileReader::new(body);
    let semispace = semispace_roles::read_current(env)?;
    let mut writer = ObjectWriter::new(env, semispace, repository);
    let mut report = ObjectImportReport::default();
    while let Some(line) = reader.line().await? {
        let bad = |why: &str| {
            let line: String = String::from_utf8_lossy(&line).chars().take(100).collect();
            Error::bad_request(&format!("`{line}`: {why}"))
        };
        let (id, kind, size) = parse_header(&line).ok_or_else(|| bad("not a line `<id> <type> <size>`"))?;
        semispace_roles::check_import_age(env)?;
        let is_known = store::exists(env, semispace, repository, id)?;
        if !is_known {
            writer.begin(id, kind, size)?;
        }
        let mut remaining = size;
        while remaining > 0 {
            let part = reader.part(remaining).await?;
            remaining -= part.len() as u64;
            if !is_known {
                writer.write(&part)?;
            }
        }
        reader.line_feed().await?;
        if is_known {
            report.known += 1;
            continue;
        }
        // Objects that have arrived together are authorized once.
        if reader.take_arrival() {
            access::still_importable(context, project, repository)?;
        }
        writer.finish()?.map_err(|_| bad("its contents have another id"))?;
        report.stored += 1;
    }
    Ok(Response::ok(&report))
}

/// Parses a line `<id> <type> <size>`.
fn parse_header(line: &[u8]) -> Option<(ObjectId, ObjectKind, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let header = (ObjectId::parse(words.next()?)?, ObjectKind::parse(words.next()?)?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_objects() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let found = parse_header(format!("{id} tree 0").as_bytes());
        assert_eq!(found, Some((ObjectId::parse(id).unwrap(), ObjectKind::Tree, 0)));
        for bad in ["", "missing", &format!("{id} missing"), &format!("{id} tree -1"), &format!("{id} tree 0 x")] {
            assert_eq!(parse_header(bad.as_bytes()), None, "{bad}");
        }
    }
}
