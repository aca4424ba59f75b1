//! Imports, for administrators: merge requests, objects, and where branches stand. Each can be
//! repeated and interrupted anywhere.

mod lines;
mod stream;

use super::Call;
use crate::git::{Id, Kind};
use crate::store::{self, Head, Names, Tip};
use directory::project::{self, ProjectLookup};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use serde::{Deserialize, Serialize};
use stream::Stream;

/// The longest name of a branch or tag, in bytes.
const MAX_NAME: usize = 255;

/// How many branches and tags one request may move.
const MAX_REFS: usize = 10_000;

/// The largest body that moves them, in bytes.
const MAX_BODY: u64 = 8 << 20;

/// 401 and 403 for everybody but administrators.
fn require_admin(call: &Call) -> Result<(), Error> {
    call.caller.user_or_401()?;
    if call.caller.is_admin() { Ok(()) } else { Err(Error::forbidden()) }
}

fn project_id(call: &Call, id: &str) -> Result<u64, Error> {
    match project::find(&call.env, id)? {
        ProjectLookup::Found(project) => Ok(project.id),
        ProjectLookup::Moved(_) | ProjectLookup::Missing => Err(Error::not_found("Project")),
    }
}

/// `POST /import/suggestions`: merge requests, one JSON object a line.
pub async fn merge_requests(call: &Call, request: Request) -> Result<Response, Error> {
    require_admin(call)?;
    Ok(Response::ok(&lines::run(&call.env, request.body).await?))
}

/// What became of the objects.
#[derive(Default, Serialize)]
struct Objects {
    stored: u64,
    /// Those that were there already.
    known: u64,
}

/// `POST /import/suggestions/:project/objects`: what `git cat-file --batch` prints, which is for
/// each object `<id> <type> <size>`, LF, the contents, LF. An object whose contents have another id
/// is 400; those before it stay. Bounded memory; 1 read for each object, and 1 write for a new one
/// (1 more for each MiB of a large one).
pub async fn objects(call: &Call, project: &str, request: Request) -> Result<Response, Error> {
    require_admin(call)?;
    let (env, project) = (&call.env, project_id(call, project)?);
    let mut stream = Stream::new(request.body);
    let space = store::current_space(env)?;
    let mut writer = store::Writer::new(env, space, project);
    let mut report = Objects::default();
    while let Some(line) = stream.line().await? {
        let bad = |why: &str| {
            let line: String = String::from_utf8_lossy(&line).chars().take(100).collect();
            Error::bad_request(&format!("`{line}`: {why}"))
        };
        let (id, kind, size) = header(&line).ok_or_else(|| bad("not a line `<id> <type> <size>`"))?;
        store::in_time(env)?;
        let is_known = store::exists(env, space, project, id)?;
        if !is_known {
            writer.begin(id, kind, size)?;
        }
        let mut left = size;
        while left > 0 {
            let part = stream.part(left).await?;
            left -= part.len() as u64;
            if !is_known {
                writer.write(&part)?;
            }
        }
        stream.newline().await?;
        if is_known {
            report.known += 1;
            continue;
        }
        writer.end()?.map_err(|_| bad("its contents have another id"))?;
        report.stored += 1;
    }
    Ok(Response::ok(&report))
}

fn header(line: &[u8]) -> Option<(Id, Kind, u64)> {
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let header = (Id::parse(words.next()?)?, Kind::parse(words.next()?)?, words.next()?.parse().ok()?);
    words.next().is_none().then_some(header)
}

#[derive(Deserialize)]
struct Wanted {
    refs: Vec<Move>,
    /// The branch that the repository has checked out, with `heads/`.
    head: Option<String>,
}

/// A branch or tag that is to be moved.
#[derive(Deserialize)]
struct Move {
    /// `heads/main`, `tags/v1`.
    name: String,
    /// Where it stands now, as far as the sender knows; absent or null: it is not there.
    old: Option<Id>,
    /// Where it is to stand; absent or null: it is to go.
    new: Option<Id>,
}

#[derive(Default, Serialize)]
struct Moves {
    moved: u64,
    /// Those that stood there already.
    unchanged: u64,
    failed: Vec<Failed>,
}

#[derive(Serialize)]
struct Failed {
    name: String,
    error: String,
}

/// `POST /import/suggestions/:project/refs`: moves each branch or tag that still stands where the
/// sender believes it does, to a commit (or tag object) that is there. Objects that no branch
/// reaches are removed a day later, so it has to be one where a branch stands or that was sent within
/// the last twelve hours, with all that no branch reaches.
pub async fn refs(call: &Call, project: &str, request: Request) -> Result<Response, Error> {
    require_admin(call)?;
    let (env, project) = (&call.env, project_id(call, project)?);
    let body = request.body.collect(MAX_BODY).await?;
    let wanted: Wanted =
        serde_json::from_slice(&body).map_err(|why| Error::validation(format!("the body is invalid: {why}")))?;
    if wanted.refs.len() > MAX_REFS {
        return Err(Error::validation(format!("refs has more than {MAX_REFS} elements")));
    }
    let good = |name: &String| is_name(name);
    let names = wanted.refs.iter().filter(|wanted| wanted.new.is_some()).map(|wanted| &wanted.name);
    let names = Names { names: names.filter(|name| good(name)).cloned().collect(), default: wanted.head.filter(good) };
    store::save_names(env, project, &names)?;
    let mut report = Moves::default();
    for wanted in wanted.refs {
        match move_ref(call, project, &wanted)? {
            Ok(true) => report.moved += 1,
            Ok(false) => report.unchanged += 1,
            Err(error) => report.failed.push(Failed { name: wanted.name, error }),
        }
    }
    Ok(Response::ok(&report))
}

/// Whether it was moved, or stood there already; or why not.
fn move_ref(call: &Call, project: u64, wanted: &Move) -> Result<Result<bool, String>, Error> {
    let env = &call.env;
    if !is_name(&wanted.name) {
        return Ok(Err("not a name of a branch (`heads/…`) or tag (`tags/…`)".into()));
    }
    if let Some(new) = wanted.new
        && !store::may_be_head(env, project, new)?
        && !is_head(env, project, new)?
    {
        return Ok(Err(format!("object {new} is not there, or was sent too long ago; send it first")));
    }
    let operation = env.id();
    store::update_head(env, project, &wanted.name, |head| -> Result<_, Error> {
        let current = head.as_ref().map(|head| head.commit);
        if head.is_some_and(|head| head.operation == operation) {
            return Ok(Decision::Done(Ok(true)));
        }
        if current == wanted.new {
            return Ok(Decision::Done(Ok(false)));
        }
        if current != wanted.old {
            let stands = current.map_or("it is not there".to_owned(), |id| format!("it stands at {id}"));
            return Ok(Decision::Done(Err(format!("{stands}, not where it was believed to"))));
        }
        current.map_or(Ok(()), |left| store::save_left(env, project, left))?;
        Ok(Decision::Write(
            match wanted.new {
                Some(commit) => Tip::At(Head { commit, applied: Vec::new(), operation: operation.clone() }),
                None => Tip::Gone,
            },
            Ok(true),
        ))
    })
}

/// Whether a branch or tag stands there already.
fn is_head(env: &Env, project: u64, id: Id) -> Result<bool, StoreError> {
    for name in store::names(env, project)?.names {
        if store::head(env, project, &name)?.is_some_and(|head| head.commit == id) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether git would accept this as the name of a branch or tag below `refs/`.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let forbidden = |c: char| c.is_control() || matches!(c, ' ' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let rest = name.strip_prefix("heads/").or_else(|| name.strip_prefix("tags/"));
    name.len() <= MAX_NAME
        && rest.is_some_and(|rest| rest.split('/').all(is_part))
        && !name.contains(forbidden)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_git_accepts() {
        for good in ["heads/main", "heads/a/b-c_d.e", "tags/v1.0", "heads/ünïcode", "heads/@", "heads/%2f"] {
            assert!(is_name(good), "{good}");
        }
        for bad in [
            "main",
            "heads/",
            "heads//a",
            "heads/a/",
            "heads/.a",
            "heads/a.lock",
            "heads/a..b",
            "heads/a b",
            "heads/a~1",
            "heads/a^",
            "heads/a:b",
            "heads/a*",
            "heads/a[",
            "heads/a\\b",
            "heads/a\n",
            "heads/a@{1}",
            "heads/a.",
            "notes/x",
            "",
        ] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(!is_name(&format!("heads/{}", "x".repeat(MAX_NAME))));
    }

    #[test]
    fn headers_of_objects() {
        let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        assert_eq!(header(format!("{id} tree 0").as_bytes()), Some((Id::parse(id).unwrap(), Kind::Tree, 0)));
        for bad in ["", "missing", &format!("{id} missing"), &format!("{id} tree -1"), &format!("{id} tree 0 x")] {
            assert_eq!(header(bad.as_bytes()), None, "{bad}");
        }
    }
}
