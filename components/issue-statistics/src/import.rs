//! The import collects lines of the request body into batches.

use crate::index_writer;
use crate::issue::{self, Change, Issue};
use crate::segment::builder::SegmentBuilder;
use crate::store::IndexStore;
use directory::reauthorization::AdminRequest;
use directory::{project, user};
use kit::ndjson::{ImportReport, LineReader};
use kit::store::StoreError;
use kit::{Body, Env, Error};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// The longest line that is accepted, in bytes.
const MAX_LINE: usize = 4 << 20;

/// Applies every line of `body`, batch by batch. An invalid line is reported and skipped. If the body breaks off or
/// storage fails, earlier batches stay applied, and the client repeats the import. They also stay applied if the sender
/// of `request` loses the administrator role; then the error has their report.
pub async fn run(env: &Env, request: &AdminRequest, body: Body) -> Result<Imported, Error> {
    let mut import = Import {
        env: env.clone(),
        request,
        imported: Imported::default(),
        committed: ImportReport::default(),
        batch: SegmentBuilder::default(),
        incarnations: HashMap::new(),
        users: HashMap::new(),
    };
    let mut lines = LineReader::new(body, MAX_LINE);
    while let Some(line) = lines.next().await? {
        match line.text {
            Ok(text) => import.add_line(line.number, &text)?,
            Err(too_long) => import.imported.report.failed(line.number, too_long),
        }
    }
    import.commit()?;
    Ok(import.imported)
}

/// The outcome of an import.
#[derive(Default)]
pub struct Imported {
    pub report: ImportReport,
    /// For the log: why segments were not merged or replaced ones not deleted. The lines are applied all the same, and
    /// the next import tries again.
    pub compaction: Option<StoreError>,
}

struct Import<'a> {
    env: Env,
    request: &'a AdminRequest,
    imported: Imported,
    /// The report at the time when the last batch was applied.
    committed: ImportReport,
    batch: SegmentBuilder,
    /// The incarnations of the projects of this batch, by id.
    incarnations: HashMap<u64, Option<String>>,
    /// The incarnations of the users of this batch, by id; `None` for the first user with an id.
    users: HashMap<u64, Option<String>>,
}

impl Import<'_> {
    fn add_line(&mut self, number: u64, line: &[u8]) -> Result<(), Error> {
        let mut change = match issue::parse(line) {
            Ok(change) => change,
            Err(error) => {
                self.imported.report.failed(number, error);
                return Ok(());
            }
        };
        if let Change::Upsert(issue) = &mut change {
            issue.project_incarnation = self.incarnation(issue.project_id())?;
            issue.reused_id_users = self.reused_id_users(issue)?;
        }
        self.batch.add(&change);
        self.imported.report.imported("issue");
        if self.batch.is_full() { self.commit() } else { Ok(()) }
    }

    /// The incarnation of a project, for its issues. 1 read for each project of a batch.
    fn incarnation(&mut self, project_id: u64) -> Result<Option<String>, Error> {
        if let Some(known) = self.incarnations.get(&project_id) {
            return Ok(known.clone());
        }
        let incarnation = project::issues_incarnation(&self.env, project_id)?.id().map(str::to_owned);
        self.incarnations.insert(project_id, incarnation.clone());
        Ok(incarnation)
    }

    /// The incarnations of those users of the issue who have reused ids. 1 read for each user of a batch.
    fn reused_id_users(&mut self, issue: &Issue) -> Result<BTreeMap<u64, String>, Error> {
        let mut reused = BTreeMap::new();
        for id in issue.user_ids() {
            let incarnation = match self.users.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => {
                    let key = user::key_of(&self.env, id)?;
                    unknown.insert(key.incarnation.id().map(str::to_owned))
                }
            };
            if let Some(incarnation) = incarnation {
                reused.insert(id, incarnation.clone());
            }
        }
        Ok(reused)
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.incarnations.clear();
        self.users.clear();
        if !self.batch.is_empty() {
            self.request.authorize(&self.env).map_err(|error| self.committed.ended_by(error))?;
            let store = IndexStore::new(&self.env.with_current_time());
            index_writer::commit(&store, std::mem::take(&mut self.batch))?;
            self.committed = self.imported.report.clone();
            self.imported.compaction = index_writer::compact(&store).err();
        }
        Ok(())
    }
}
