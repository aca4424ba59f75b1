//! The objects of a pack that was received: its deltas are applied, every object is checked, and so is that
//! everything that they need is there.

use super::deltas::Deltas;
use super::received::{PackError, PackOrigin, ReceivedBase, ReceivedEntry, invalid};
use super::small::{self, NewObject};
use crate::git::fsck::{CheckedObject, TypedLink};
use crate::git::{Link, Object, ObjectId, ObjectKind, delta, fsck, parse_links};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use crate::store::packs::{IndexEntry, MAX_DELTIFIED, PackBytes, header_at, inflate};
use ::bytes::Bytes;
use kit::Env;
use std::collections::{BTreeSet, HashMap};

/// The bytes of bases that wait for their deltas at most; beyond them, a base is made again.
const MAX_WAITING: usize = 64 << 20;

/// The most bytes of a `.gitmodules` file.
const MAX_GITMODULES: u64 = 1 << 20;

/// The most tips and bases that a pack's record names.
const MAX_TIPS: usize = 1000;

/// What is known of the objects of a pack.
pub struct Resolver<'a> {
    env: &'a Env,
    project: RepositoryId,
    origin: PackOrigin,
    /// What the pack's objects link to: the kind that it must have, and whether the link leads into history.
    links: HashMap<ObjectId, (Option<ObjectKind>, bool)>,
    gitmodules: BTreeSet<ObjectId>,
}

/// A pack whose objects are all known.
pub struct Resolved {
    /// Sorted by id.
    pub entries: Vec<IndexEntry>,
    /// The tips that are in the pack.
    pub tips: Vec<ObjectId>,
    /// Commits of other packs that those of this pack build on.
    pub bases: Vec<ObjectId>,
    /// Whether the tips reach every object of the pack.
    pub is_closed: bool,
}

/// An object whose deltas are to be applied next.
struct Waiting {
    entry: u32,
    /// `None` if there was no room for them.
    contents: Option<Bytes>,
}

/// Of each entry: the object, and how many deltas are to be applied to get it.
type Objects = Vec<Option<(ObjectId, ObjectKind, u8)>>;

impl<'a> Resolver<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, origin: PackOrigin) -> Self {
        Resolver { env, project, origin, links: HashMap::new(), gitmodules: BTreeSet::new() }
    }

    /// Checks an object, and notes what it links to. The contents of a blob may be left out.
    pub fn check(&mut self, id: ObjectId, kind: ObjectKind, contents: &Bytes) -> Result<(), PackError> {
        let mut checked = fsck::check(kind, contents);
        if self.origin == PackOrigin::Import {
            checked = checked.or_else(|why| links_only(kind, contents).ok_or(why));
        }
        let checked = checked.map_err(|why| invalid(format!("{} {id}: {why}", kind.as_str())))?;
        for link in checked.links {
            let known = self.links.entry(link.id).or_insert((link.kind, link.is_history));
            match (known.0, link.kind) {
                (Some(a), Some(b)) if a != b => {
                    return Err(invalid(format!(
                        "object {} is used as a {} and as a {}",
                        link.id,
                        a.as_str(),
                        b.as_str()
                    )));
                }
                (None, kind) => known.0 = kind,
                _ => {}
            }
            known.1 |= link.is_history;
        }
        self.gitmodules.extend(checked.gitmodules);
        Ok(())
    }

    /// Applies the deltas and checks everything that the pack needs.
    pub fn finish(
        mut self,
        pack: &str,
        entries: &[ReceivedEntry],
        tips: &BTreeSet<ObjectId>,
    ) -> Result<Resolved, PackError> {
        let objects = self.apply_deltas(pack, entries)?;
        let index = self.build_index(entries, &objects)?;
        let find = |id: ObjectId| index.binary_search_by_key(&id, |entry| entry.id).ok().and_then(|at| index.get(at));
        let mut bases = Vec::new();
        let mut is_packed = true;
        for (id, (kind, is_history)) in &self.links {
            let found = match find(*id) {
                Some(entry) => Some(entry.kind),
                None => {
                    if *is_history {
                        bases.push(*id);
                    }
                    is_packed &= objects::is_packed(self.env, self.project, *id)?;
                    objects::kind(self.env, self.project, *id)?
                }
            };
            let may_lack = *is_history && self.origin == PackOrigin::Import;
            match (found, kind) {
                (None, _) if may_lack => {}
                (None, _) => return Err(invalid(format!("missing necessary objects: {id} is not there"))),
                (Some(found), Some(kind)) if found != *kind => {
                    return Err(invalid(format!("object {id} is a {}, not a {}", found.as_str(), kind.as_str())));
                }
                _ => {}
            }
        }
        let tips: Vec<ObjectId> = match self.origin {
            PackOrigin::Push => tips.iter().copied().filter(|tip| find(*tip).is_some()).collect(),
            PackOrigin::Import => {
                let unlinked = index.iter().map(|entry| entry.id).filter(|id| !self.links.contains_key(id));
                unlinked.collect()
            }
        };
        let reached = |entry: &IndexEntry| self.links.contains_key(&entry.id) || tips.contains(&entry.id);
        let is_closed = is_packed && tips.len() <= MAX_TIPS && bases.len() <= MAX_TIPS && index.iter().all(reached);
        self.check_submodules(pack, entries, &objects)?;
        let (tips, bases) = if is_closed { (tips, bases) } else { (Vec::new(), Vec::new()) };
        Ok(Resolved { entries: index, tips, bases, is_closed })
    }

    fn apply_deltas(&mut self, pack: &str, entries: &[ReceivedEntry]) -> Result<Objects, PackError> {
        let mut objects: Objects = entries.iter().map(|entry| entry.object.map(|(id, kind)| (id, kind, 0))).collect();
        let mut deltas = Deltas::of(entries);
        for number in (0..).take(entries.len()) {
            let Some((id, _, 0)) = get(&objects, number) else { continue };
            self.apply_from(pack, entries, &mut objects, &mut deltas, number, id)?;
        }
        self.pack_loose_bases(&deltas)?;
        // What is left are deltas of objects that the repository has, and what builds on those.
        loop {
            let mut is_progress = false;
            for id in deltas.by_id.keys().copied().collect::<Vec<_>>() {
                let Some((kind, base)) = objects::read_any(self.env, self.project, id, MAX_DELTIFIED)? else {
                    continue;
                };
                let depth = objects::delta_depth(self.env, self.project, id)?.saturating_add(1);
                for number in deltas.by_id.remove(&id).unwrap_or_default() {
                    is_progress = true;
                    let (contents, id) = self.apply(pack, entries, number, kind, &base)?;
                    set(&mut objects, number, (id, kind, depth));
                    let waiting = Waiting { entry: number, contents: Some(contents) };
                    self.apply_from_contents(pack, entries, &mut objects, &mut deltas, waiting)?;
                }
            }
            if !is_progress {
                break;
            }
        }
        if let Some(id) = deltas.by_id.keys().next() {
            return Err(invalid(format!("unresolved delta: its base {id} is not there")));
        }
        match objects.iter().filter(|object| object.is_none()).count() {
            0 => Ok(objects),
            unresolved => Err(invalid(format!("pack has {unresolved} unresolved deltas"))),
        }
    }

    /// Puts loose objects that are bases of deltas into packs, where every base is.
    fn pack_loose_bases(&self, deltas: &Deltas) -> Result<(), PackError> {
        let mut loose = Vec::new();
        let mut size = 0;
        for id in deltas.by_id.keys() {
            if objects::is_packed(self.env, self.project, *id)? {
                continue;
            }
            let Some((kind, contents)) = objects::read_any(self.env, self.project, *id, MAX_DELTIFIED)? else {
                continue;
            };
            size += contents.len();
            loose.push(NewObject { object: Object { id: *id, kind, contents: contents.to_vec() }, previous: None });
            if size > MAX_WAITING {
                small::save_copies(self.env, self.project, &std::mem::take(&mut loose))?;
                size = 0;
            }
        }
        if loose.is_empty() { Ok(()) } else { Ok(small::save_copies(self.env, self.project, &loose)?) }
    }

    /// Applies the deltas of an entry that is not one itself, and their deltas.
    fn apply_from(
        &mut self,
        pack: &str,
        entries: &[ReceivedEntry],
        objects: &mut Objects,
        deltas: &mut Deltas,
        number: u32,
        id: ObjectId,
    ) -> Result<(), PackError> {
        match deltas.has(number, id) {
            true => self.apply_from_contents(pack, entries, objects, deltas, Waiting { entry: number, contents: None }),
            false => Ok(()),
        }
    }

    fn apply_from_contents(
        &mut self,
        pack: &str,
        entries: &[ReceivedEntry],
        objects: &mut Objects,
        deltas: &mut Deltas,
        first: Waiting,
    ) -> Result<(), PackError> {
        let mut held = first.contents.as_ref().map_or(0, Bytes::len);
        let mut stack = vec![first];
        while let Some(Waiting { entry, contents }) = stack.pop() {
            held -= contents.as_ref().map_or(0, Bytes::len);
            let Some((id, kind, depth)) = get(objects, entry) else { continue };
            let next = deltas.take(entry, id);
            if next.is_empty() {
                continue;
            }
            let base = match contents {
                Some(contents) => contents,
                None => self.rebuild(pack, entries, objects, entry)?,
            };
            for number in next {
                let (contents, id) = self.apply(pack, entries, number, kind, &base)?;
                set(objects, number, (id, kind, depth.saturating_add(1)));
                let has_room = held + contents.len() <= MAX_WAITING;
                let contents = has_room.then_some(contents);
                held += contents.as_ref().map_or(0, Bytes::len);
                stack.push(Waiting { entry: number, contents });
            }
        }
        Ok(())
    }

    /// Applies one delta, and checks what it makes.
    fn apply(
        &mut self,
        pack: &str,
        entries: &[ReceivedEntry],
        number: u32,
        kind: ObjectKind,
        base: &Bytes,
    ) -> Result<(Bytes, ObjectId), PackError> {
        let contents = self.apply_only(pack, entries, number, base)?;
        let object = Object::new(kind, contents);
        let contents = Bytes::from(object.contents);
        self.check(object.id, kind, &contents)?;
        Ok((contents, object.id))
    }

    fn apply_only(
        &self,
        pack: &str,
        entries: &[ReceivedEntry],
        number: u32,
        base: &Bytes,
    ) -> Result<Vec<u8>, PackError> {
        let delta = self.inflate(pack, entries, number)?;
        delta::apply(base, &delta).map_err(|_| invalid("failed to apply delta"))
    }

    fn inflate(&self, pack: &str, entries: &[ReceivedEntry], number: u32) -> Result<Bytes, PackError> {
        let bytes = PackBytes::new(self.env, pack);
        let entry = usize::try_from(number).ok().and_then(|number| entries.get(number));
        let offset = entry.ok_or_else(|| invalid("unresolved delta"))?.offset;
        let header = header_at(bytes, offset)?;
        if header.size > MAX_DELTIFIED {
            return Err(invalid(format!(
                "a delta's base has {} bytes, and at most {MAX_DELTIFIED} are accepted",
                header.size
            )));
        }
        Ok(inflate::entry(self.env, bytes, offset, &header)?)
    }

    /// The contents of an entry, from the one that is no delta, or whose base is in the repository.
    fn rebuild(
        &self,
        pack: &str,
        entries: &[ReceivedEntry],
        objects: &Objects,
        number: u32,
    ) -> Result<Bytes, PackError> {
        let mut chain = Vec::new();
        let mut at = number;
        let mut contents = loop {
            let entry = usize::try_from(at).ok().and_then(|at| entries.get(at));
            match entry.map(|entry| entry.base).ok_or_else(|| invalid("unresolved delta"))? {
                ReceivedBase::None => break self.inflate(pack, entries, at)?,
                ReceivedBase::Entry(base) => {
                    chain.push(at);
                    at = base;
                }
                ReceivedBase::Id(id) => {
                    chain.push(at);
                    let inside = objects.iter().position(|object| object.is_some_and(|(known, ..)| known == id));
                    match inside.and_then(|inside| u32::try_from(inside).ok()) {
                        Some(inside) => at = inside,
                        None => {
                            let base = objects::read_any(self.env, self.project, id, MAX_DELTIFIED)?;
                            break base.ok_or_else(|| invalid("unresolved delta"))?.1;
                        }
                    }
                }
            }
        };
        for number in chain.into_iter().rev() {
            contents = self.apply_only(pack, entries, number, &contents)?.into();
        }
        Ok(contents)
    }

    /// The index, in which every object is once.
    fn build_index(&self, entries: &[ReceivedEntry], objects: &Objects) -> Result<Vec<IndexEntry>, PackError> {
        let mut ids: Vec<(ObjectId, u32)> = Vec::with_capacity(objects.len());
        for (number, object) in (0..).zip(objects) {
            let (id, ..) = object.ok_or_else(|| invalid("pack has unresolved deltas"))?;
            ids.push((id, number));
        }
        ids.sort_unstable();
        let duplicate = ids.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(*a),
            _ => None,
        });
        if let Some(id) = duplicate {
            return Err(invalid(format!("pack has object {id} twice")));
        }
        // The position in the index of each entry.
        let mut positions = vec![0_u32; ids.len()];
        for (position, (_, number)) in (0..).zip(&ids) {
            if let Some(slot) = usize::try_from(*number).ok().and_then(|number| positions.get_mut(number)) {
                *slot = position;
            }
        }
        let position_of = |number: u32| usize::try_from(number).ok().and_then(|number| positions.get(number)).copied();
        let mut index = Vec::with_capacity(ids.len());
        for (id, number) in &ids {
            let entry = usize::try_from(*number).ok().and_then(|number| entries.get(number));
            let (Some(entry), Some((_, kind, depth))) = (entry, get(objects, *number)) else {
                return Err(invalid("pack has unresolved deltas"));
            };
            let base = match entry.base {
                ReceivedBase::None => None,
                ReceivedBase::Entry(number) => position_of(number),
                ReceivedBase::Id(id) => {
                    let at = ids.binary_search_by_key(&id, |(id, _)| *id).ok();
                    at.and_then(|at| u32::try_from(at).ok())
                }
            };
            index.push(IndexEntry { id: *id, offset: entry.offset, length: entry.length, base, depth, kind });
        }
        Ok(index)
    }

    fn check_submodules(&self, pack: &str, entries: &[ReceivedEntry], objects: &Objects) -> Result<(), PackError> {
        if self.gitmodules.is_empty() || self.origin == PackOrigin::Import {
            return Ok(());
        }
        for (number, object) in (0..).zip(objects) {
            let Some((id, ..)) = object.filter(|(id, ..)| self.gitmodules.contains(id)) else { continue };
            let contents = self.rebuild(pack, entries, objects, number)?;
            if contents.len() as u64 > MAX_GITMODULES {
                return Err(invalid(format!("blob {id}: gitmodulesLarge: .gitmodules too large to parse")));
            }
            fsck::check_gitmodules(&contents).map_err(|why| invalid(format!("blob {id}: {why}")))?;
        }
        Ok(())
    }
}

/// What an object with faults links to, if it can be read at all.
fn links_only(kind: ObjectKind, contents: &Bytes) -> Option<CheckedObject> {
    let links = parse_links(kind, contents.clone())?.into_iter().map(|link| match link {
        Link::Part(id) => TypedLink { id, kind: None, is_history: false },
        Link::Parent(id) => TypedLink { id, kind: Some(ObjectKind::Commit), is_history: true },
    });
    Some(CheckedObject { links: links.collect(), gitmodules: Vec::new() })
}

fn get(objects: &Objects, number: u32) -> Option<(ObjectId, ObjectKind, u8)> {
    usize::try_from(number).ok().and_then(|number| objects.get(number)).copied().flatten()
}

fn set(objects: &mut Objects, number: u32, object: (ObjectId, ObjectKind, u8)) {
    if let Some(slot) = usize::try_from(number).ok().and_then(|number| objects.get_mut(number)) {
        *slot = Some(object);
    }
}
