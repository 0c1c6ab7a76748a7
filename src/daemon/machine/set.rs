//! The cut of a set: all its stores are held at one instant, and from there on each is cut as it would be alone.

use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};

use asat_core::event::{Cut, CutFailure, Kept, SetCut, SetMember};
use asat_core::version::SetPublication;
use asat_core::{Code, Problem, SetName, StoreName, VersionId};
use asat_host::store::{Before, Member};
use asat_host::worker::Moment;
use jiff::Timestamp;

use super::cut::{Cutting, not_begun};
use super::{Machine, Store};
use crate::daemon::archives::Note;

/// A store that is to be cut together with others.
struct Part<'a> {
    member: &'a SetMember,
    store: Arc<Store>,
    /// What its files were like before it was held.
    before: Before,
}

impl Machine {
    /// Fixes the content of all stores of a set as it is at one instant. Where that cannot be, nothing has begun.
    pub(super) fn cut_set(
        &self,
        set: &SetName,
        members: &[SetMember],
        note: Note,
        after: Option<Timestamp>,
    ) -> Result<SetCut, Problem> {
        let parts: Vec<Part<'_>> = members
            .iter()
            .map(|member| self.part(member).map_err(|problem| naming(set, &member.version.store, problem)))
            .collect::<Result<_, _>>()?;
        let held: Vec<Member<'_>> = parts.iter().map(Part::held).collect();
        let (instant, moments) =
            self.workers.fix_together(&held, &self.stopping).map_err(|(index, error)| {
                match members.get(index) {
                    Some(member) => naming(set, &member.version.store, error.into()),
                    None => error.into(),
                }
            })?;
        let stores: Vec<&StoreName> = members.iter().map(|member| &member.version.store).collect();
        let cut_at = self.in_order(&stores, after, instant);
        let note = Note { of_set: Some(SetPublication { set: set.clone(), cut_at }), ..note };
        let cut = |(part, moment): (&Part<'_>, Moment)| {
            let cut = self.cut_part(part, moment, note.clone(), cut_at);
            cut.inspect(|cut| {
                self.seen.remember(&part.member.version, &part.store.path, &cut.kept, &part.before);
            })
        };
        let cuts = at_once(parts.iter().zip(moments), cut);
        let named = |(SetMember { version: id, .. }, cut): (&SetMember, Result<Cut, CutFailure>)| {
            // By the time at which the last one is through, the snapshot of the first may be full.
            let cut = cut.and_then(|cut| self.still_held(id, cut));
            cut.map_err(|CutFailure { problem, begun, left, lacks }| {
                let problem = naming(set, &id.store, problem);
                CutFailure { problem, begun, left, lacks }
            })
        };
        Ok(SetCut { cut_at, cuts: members.iter().zip(cuts).map(named).collect() })
    }

    /// Refuses a cut whose snapshot has lost its content.
    fn still_held(&self, id: &VersionId, cut: Cut) -> Result<Cut, CutFailure> {
        let Kept::Snapshot { snapshot, .. } = &cut.kept else { return Ok(cut) };
        let lost = |problem| CutFailure { begun: true, left: Some(snapshot.clone()), ..not_begun(problem) };
        self.check_whole(id, snapshot).map_err(lost)?;
        Ok(cut)
    }

    /// Finds out about a store what can be refused before anybody is held, and does what takes its time.
    fn part<'a>(&self, member: &'a SetMember) -> Result<Part<'a>, Problem> {
        let SetMember { version: id, origin, .. } = member;
        let store = self.configured(&id.store)?;
        self.check_room(&id.store)?;
        match origin {
            Some(origin) => self.backends.of(origin).prepare(id, &store, origin)?,
            None => self.read_newest(&id.store)?,
        }
        let before = Before::look(&store.path);
        Ok(Part { member, store, before })
    }

    /// Cuts a store from the moment on that was fixed of it.
    fn cut_part(
        &self,
        part: &Part<'_>,
        moment: Moment,
        note: Note,
        cut_at: Timestamp,
    ) -> Result<Cut, CutFailure> {
        let Part { member: SetMember { version: id, origin, anew }, store, .. } = part;
        let checks = self.demanded(&id.store, &note.attributes);
        let cutting = Cutting { id, note, after: None, checks: &checks, at: Some(cut_at), anew: *anew };
        match (moment, origin) {
            (Moment::Read(fixed), _) => {
                let cut = self.store_pages(&cutting, |checks, sink| fixed.read(checks, sink))?;
                self.tracking.read_elsewhere(id, &cut.kept);
                Ok(cut)
            }
            (Moment::Still(still), Some(origin)) => self.cut_still(&cutting, origin, store, *still),
            (Moment::Still(_), None) => {
                let detail = format!("{id} is held still, and no snapshot is to be taken");
                Err(not_begun(Problem::new(Code::Internal, detail, "report this as a defect")))
            }
        }
    }
}

impl Part<'_> {
    fn held(&self) -> Member<'_> {
        let by_snapshot = self.member.origin.is_some();
        Member { path: &self.store.path, limits: &self.store.limits, by_snapshot }
    }
}

/// Does the same with all at once, each in a thread of its own: what writers wait for waits for nothing else.
fn at_once<I: Send>(
    items: impl Iterator<Item = I>,
    work: impl Fn(I) -> Result<Cut, CutFailure> + Sync,
) -> Vec<Result<Cut, CutFailure>> {
    let internal = |what: String| not_begun(Problem::new(Code::Internal, what, "look into the log"));
    let cause = tracing::Span::current();
    thread::scope(|scope| {
        let start = |item| {
            let builder = thread::Builder::new().name("member".to_owned());
            builder.spawn_scoped(scope, || cause.in_scope(|| work(item)))
        };
        let threads: Vec<_> = items.map(start).collect();
        let end = |thread: std::io::Result<ScopedJoinHandle<'_, _>>| match thread.map(ScopedJoinHandle::join)
        {
            Ok(Ok(cut)) => cut,
            // What it may have left is looked for where the version is given up.
            Ok(Err(_)) => {
                Err(CutFailure { begun: true, ..internal("the cut ended with a panic".to_owned()) })
            }
            Err(error) => Err(internal(format!("cannot start a thread for a cut: {error}"))),
        };
        threads.into_iter().map(end).collect()
    })
}

/// How the problem of a set says which of its stores it was.
pub(in crate::daemon) fn of_store(store: &StoreName) -> String {
    format!("; store {store}: ")
}

/// A problem of one store, told of the set.
fn naming(set: &SetName, store: &StoreName, problem: Problem) -> Problem {
    let detail = format!("the set {set} was not published{}{}", of_store(store), problem.detail);
    Problem { detail, ..problem }
}
