//! Publishing: from a certification to a version that is acknowledged.

use jiff::Timestamp;

use super::idempotency::{Of, is_taken};
use super::tiering::waits_for_archive;
use super::{Backing, Draft, Engine};
use crate::check::CheckResult;
use crate::event::{Answer, Cut, CutFailure, Effect, EffectId, Event, Intent, Kept, Publish, Reply};
use crate::event::{Archived, Change, Described};
use crate::line::check_line;
use crate::register::{Entry, History};
use crate::snapshot::{Cost, Origin};
use crate::version::{Attributes, Content, Holding, Publication, SetPublication, State, Version};
use crate::{By, Code, Problem, StoreName, VersionId, watch};

impl Engine {
    pub(super) fn publish(&self, draft: &mut Draft<'_>, request: &Publish) -> Result<Answer, Problem> {
        Self::check_request(request)?;
        let history = self.wanted(request)?;
        let store = &history.store.name;
        if let Some(answer) =
            self.answer_again(Of::Store(store), &request.attributes, request.key.as_deref())?
        {
            return Ok(answer);
        }
        if let Some(answer) = self.again(draft, history, request) {
            return Ok(answer);
        }
        self.check_label(draft, history, &request.attributes)?;
        let origin = self.origin_of(history)?;
        Ok(Answer::After(self.begin_cut(draft, history, request, origin, None)))
    }

    /// Refuses what cannot be recorded as it is.
    pub(super) fn check_request(request: &Publish) -> Result<(), Problem> {
        request.attributes.check()?;
        check_line("Idempotency-Key", request.key.as_deref(), 255)
    }

    /// The history of the store that a request is about.
    ///
    /// # Errors
    /// [`Code::UnknownStore`]; [`Code::Invalid`] where it names none and there are several.
    pub fn wanted(&self, request: &Publish) -> Result<&History, Problem> {
        match &request.store {
            Some(name) => self.register.history(name),
            None => self.the_store(),
        }
    }

    /// The volume that a store is cut by, where it is; refuses a store that cannot be cut now, and every one while
    /// nobody knows which time it is.
    pub(super) fn origin_of(&self, history: &History) -> Result<Option<Origin>, Problem> {
        let store = &history.store.name;
        self.check_configured(store)?;
        self.check_clock()?;
        match self.policy.stores.get(store).map(|policy| &policy.backing) {
            Some(Backing::Volume(origin)) => Ok(Some(origin.clone())),
            Some(Backing::Unusable(problem)) => Err(problem.clone()),
            Some(Backing::Pages) | None => {
                // Of a store that was cut by snapshots before: the archive takes versions in their order.
                match history.moving().find(|version| waits_for_archive(history, version)) {
                    None => Ok(None),
                    Some(version) => {
                        let detail = format!("{} is on its way into the archive", version.id);
                        Err(Problem::new(Code::InUse, detail, "publish again in a moment"))
                    }
                }
            }
        }
    }

    /// Refuses a store that is remembered and no longer watched.
    pub(super) fn check_configured(&self, store: &StoreName) -> Result<(), Problem> {
        if self.policy.stores.contains_key(store) {
            return Ok(());
        }
        let detail = format!("store {store} is no longer in the configuration; its versions are kept");
        Err(Problem::new(Code::UnknownStore, detail, "add it to the configuration and restart"))
    }

    /// The store of a request that names none: the only configured one, whatever was configured once.
    fn the_store(&self) -> Result<&History, Problem> {
        let mut names = self.policy.stores.keys();
        match (names.next(), names.next()) {
            (Some(name), None) => self.register.history(name),
            _ => self.register.only_store(),
        }
    }

    pub(super) fn finish_cut(
        &self,
        draft: &mut Draft<'_>,
        intent: &Intent,
        result: &Result<Cut, CutFailure>,
    ) -> Result<Answer, Problem> {
        let (Some(id), Some(certification)) = (intent.effect.version(), Certification::intended(intent))
        else {
            return Ok(Answer::Now(Ok(Reply::Done)));
        };
        let version = &self.register.entry(id)?.version;
        match result {
            Ok(cut) => {
                if let Some(answer) = self.end_with_label(draft, intent, version, cut) {
                    return answer;
                }
                let (id, reused) = self.settle(draft, version, &cut.kept)?;
                let found = (cut.cost, cut.checks.as_slice());
                let number = publish_as(draft, certification, id.clone(), reused, found, None);
                self.move_on(draft);
                match &intent.effect {
                    Effect::Cut { then_restore: Some(wanted), .. } => {
                        self.go_on_to_restore(draft, wanted, id, number)
                    }
                    _ => Ok(Answer::Now(Ok(Reply::Published(number)))),
                }
            }
            Err(failure) => {
                fail_cut(draft, version, failure, &failure.problem.to_string());
                if failure.begun {
                    self.move_on(draft);
                }
                match self.room_for(draft, &intent.effect, id, failure) {
                    Some(effect) => Ok(Answer::Again(effect)),
                    None => Err(failure.problem.clone()),
                }
            }
        }
    }

    /// What makes room for a cut that found none, where something does.
    pub(super) fn room_for(
        &self,
        draft: &mut Draft<'_>,
        effect: &Effect,
        id: &VersionId,
        failure: &CutFailure,
    ) -> Option<EffectId> {
        let lack = failure.lacks.filter(|_| !failure.begun)?;
        let cut = effect.cuts().into_iter().find(|(version, _)| *version == id);
        self.free_space(draft, cut.and_then(|(version, origin)| Some((version, origin?)))?, lack)
    }

    /// Begins a version, and intends the cut that makes it.
    pub(super) fn begin_cut(
        &self,
        draft: &mut Draft<'_>,
        history: &History,
        request: &Publish,
        origin: Option<Origin>,
        then_restore: Option<VersionId>,
    ) -> EffectId {
        let version = begin_version(draft, history);
        draft.intend(Effect::Cut {
            version,
            attributes: request.attributes.clone(),
            key: request.key.clone(),
            // And after the intent: what is older is taken for another's.
            after: history.last_cut().max(Some(draft.now)),
            origin,
            then_restore,
            anew: self.is_cut_anew(&history.store.name),
        })
    }

    /// Which version the cut turned out to be, and whether it was there already.
    pub(super) fn settle(
        &self,
        draft: &mut Draft<'_>,
        version: &Version,
        kept: &Kept,
    ) -> Result<(VersionId, bool), Problem> {
        match kept {
            Kept::Snapshot { content, snapshot } => {
                draft.put(ready(version, content, Holding::Snapshot(snapshot.clone())));
                Ok((version.id.clone(), false))
            }
            Kept::Stored { content, bytes, worth_compacting } => {
                if *worth_compacting {
                    self.compact(draft, &version.id.store);
                }
                draft.put(ready(version, content, Holding::Archive { bytes: *bytes }));
                Ok((version.id.clone(), false))
            }
            Kept::SameAs(number) => {
                draft.changes.push(Change::Discarded(version.id.clone()));
                Ok((self.reused(&version.id, *number)?, true))
            }
        }
    }

    /// The version that a store still is, unless it cannot be read any more, or a later one was lost meanwhile. Nothing was stored then:
    /// the request may be repeated.
    pub(super) fn reused(&self, id: &VersionId, number: u64) -> Result<VersionId, Problem> {
        let same = VersionId { store: id.store.clone(), number };
        let again = |why: String| {
            let detail = format!("the store is exactly as it was at {same}, and {why}");
            Problem::new(Code::InUse, detail, "publish again in a moment")
        };
        self.register.entry(&same)?.version.check_readable().map_err(|gone| again(gone.detail))?;
        match self.register.history(&id.store)?.newest_cut() {
            Some(Entry { version: newest, .. }) if newest.id != same => {
                Err(again(format!("{} was cut after that one", newest.id)))
            }
            _ => Ok(same),
        }
    }

    /// Takes a version over that the archive holds and the register does not know as readable.
    pub(super) fn adopt(draft: &mut Draft<'_>, intent: &Intent, version: &Version, described: &Described) {
        draft.remark(&version.id, format!("{} was complete in the archive and is adopted", version.id));
        draft.put(ready(version, &described.content, Holding::Archive { bytes: described.bytes }));
        if let Some(certification) = Certification::intended(intent) {
            let found = (Cost::default(), described.checks.as_slice());
            publish_as(draft, certification, version.id.clone(), false, found, described.of_set.clone());
        }
    }

    /// Takes over a version that the archive holds and the register has never heard of.
    pub(super) fn adopt_unknown(draft: &mut Draft<'_>, archived: &Archived, described: &Described) {
        let id = &archived.version;
        let version = unheard_of(id, described.content.cut_at);
        draft.remark(id, format!("{id} was complete in the archive and is adopted"));
        draft.put(ready(&version, &described.content, Holding::Archive { bytes: described.bytes }));
        take_over(draft, id, described);
    }

    /// Whether a publication is under way that may yet turn out to be this version.
    pub(super) fn may_be_reused(&self, id: &VersionId) -> bool {
        let cutting = |intent: &Intent| intent.effect.cuts_of(&id.store);
        let newest = self.register.history(&id.store).ok().and_then(History::newest_readable);
        newest.is_some_and(|entry| entry.version.id == *id) && self.register.intents().any(cutting)
    }
}

/// A version of which nothing is recorded.
pub(super) fn unheard_of(id: &VersionId, begun_at: Timestamp) -> Version {
    Version {
        id: id.clone(),
        state: State::Cutting,
        begun_at,
        content: None,
        holdings: Vec::new(),
        copy: None,
        pin: None,
        end: None,
    }
}

/// Records the publication that a version was made for of which nothing is recorded.
pub(super) fn take_over(draft: &mut Draft<'_>, id: &VersionId, described: &Described) {
    let by = By::asat();
    let Described { content, attributes, key, of_set, checks, .. } = described;
    let certification = Certification { at: content.cut_at, by: &by, attributes, key: key.as_ref() };
    let found = (Cost::default(), checks.as_slice());
    publish_as(draft, certification, id.clone(), false, found, of_set.clone());
}

/// Begins a version.
pub(super) fn begin_version(draft: &mut Draft<'_>, history: &History) -> VersionId {
    let id = VersionId { store: history.store.name.clone(), number: history.next_number() };
    draft.put(unheard_of(&id, draft.now));
    id
}

/// Ends a version whose cut has failed.
pub(super) fn fail_cut(draft: &mut Draft<'_>, version: &Version, failure: &CutFailure, reason: &str) {
    if failure.begun {
        let left = failure.left.iter().cloned().map(Holding::Snapshot).collect();
        draft.end(&Version { holdings: left, ..version.clone() }, State::Failed, reason);
        // Whatever may have reached the archive goes again, and so does a snapshot that is left.
        draft.intend(Effect::Retire { version: version.id.clone() });
    } else {
        // Nothing was cut, so there is nothing to remember.
        draft.changes.push(Change::Discarded(version.id.clone()));
    }
}

/// The version as it is once its content is held.
pub(super) fn ready(version: &Version, content: &Content, holding: Holding) -> Version {
    Version {
        state: State::Ready,
        content: Some(content.clone()),
        holdings: vec![holding],
        end: None,
        ..version.clone()
    }
}

/// A certification, as a request, an intent or the archive tells of it.
#[derive(Clone, Copy)]
pub(super) struct Certification<'a> {
    pub(super) at: Timestamp,
    pub(super) by: &'a By,
    pub(super) attributes: &'a Attributes,
    pub(super) key: Option<&'a String>,
}

impl<'a> Certification<'a> {
    /// What a cut is for; nothing of other effects.
    pub(super) fn intended(intent: &'a Intent) -> Option<Self> {
        let Intent { at, by, effect, .. } = intent;
        match effect {
            Effect::Cut { attributes, key, .. } | Effect::CutSet { attributes, key, .. } => {
                Some(Self { at: *at, by, attributes, key: key.as_ref() })
            }
            _ => None,
        }
    }
}

/// Records a publication of a version, under the number that it answers.
pub(super) fn publish_as(
    draft: &mut Draft<'_>,
    Certification { at, by, attributes, key }: Certification<'_>,
    version: VersionId,
    reused: bool,
    (cost, checks): (Cost, &[CheckResult]),
    of_set: Option<SetPublication>,
) -> u64 {
    let number = next_publication(draft);
    // It stands for all publications of a set.
    let key = key.filter(|key| !is_taken(draft, key)).cloned();
    let publication = Publication {
        number,
        version,
        at,
        attributes: watch::as_found(attributes, checks),
        key,
        of_set,
        reused,
        cost,
        elapsed_us: u64::try_from(draft.now.duration_since(at).as_micros()).unwrap_or(0),
        checks: checks.to_vec(),
    };
    draft.publish(by.clone(), publication);
    number
}

/// The number of the next publication, after those of the draft.
pub(super) fn next_publication(draft: &Draft<'_>) -> u64 {
    draft.register.next_publication() + draft.published
}

impl Event {
    /// A publication request with nothing said of it.
    #[must_use]
    pub fn publish(store: &StoreName) -> Self {
        Self::Publish(Publish { store: Some(store.clone()), ..Publish::default() })
    }
}
