//! Which thread goes on: at random, or each way there is, one after another.

/// Random numbers that a seed replays.
#[derive(Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// Once in so many times.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

/// How choices are made.
pub(crate) enum Choices {
    /// At random; another thread than before about once in so many times.
    Random { dice: Dice, once_in: usize },
    /// All, one run after another.
    All(All),
}

impl Default for Choices {
    fn default() -> Self {
        Self::Random { dice: Dice::new(0), once_in: 1 }
    }
}

/// All schedules in which threads are interrupted at most so often.
#[derive(Default)]
pub(crate) struct All {
    /// The choices of this run, as far as they were made.
    made: Vec<Choice>,
    at: usize,
    most_interruptions: usize,
    /// The steps at which threads are interrupted, if it is not at each.
    at_steps: Option<&'static [&'static str]>,
}

/// The steps that change what others see, and those after which they look.
const CHANGES: [&str; 6] = [
    "archive: begin a version",
    "archive: end a version",
    "archive: give up a version",
    "archive: rename",
    "archive: take the new state",
    "archive: unlink",
];

/// The steps after which somebody relies on which versions are live, or has changed that.
const LIVES: [&str; 3] = ["test: pages taken", "archive: rename", "archive: take the new state"];

struct Choice {
    options: Vec<usize>,
    chosen: usize,
    /// The thread before, if it could have gone on.
    stays: Option<usize>,
}

impl Choice {
    fn interrupts(&self) -> bool {
        self.stays.is_some_and(|stays| self.options.get(self.chosen) != Some(&stays))
    }
}

impl All {
    pub(crate) fn new(most_interruptions: usize) -> Self {
        Self { most_interruptions, ..Self::default() }
    }

    /// All schedules in which threads are interrupted, as often as can be, at the steps that change what others see.
    pub(crate) fn at_changes() -> Self {
        Self { most_interruptions: usize::MAX, at_steps: Some(&CHANGES), ..Self::default() }
    }

    /// All schedules in which threads are interrupted at most so often, where somebody relies on which versions are live.
    pub(crate) fn at_lives(most_interruptions: usize) -> Self {
        Self { most_interruptions, at_steps: Some(&LIVES), ..Self::default() }
    }

    /// Goes to the next schedule; answers whether there is one.
    pub(crate) fn advance(&mut self) -> bool {
        self.at = 0;
        while let Some(choice) = self.made.last_mut() {
            choice.chosen += 1;
            if choice.chosen < choice.options.len() {
                return true;
            }
            self.made.pop();
        }
        false
    }

    fn next(&mut self, options: &[usize], blocked: usize, current: usize) -> Option<usize> {
        if self.at == self.made.len() {
            let stays = Some(current).filter(|current| options[blocked..].contains(current));
            let interruptions = self.made.iter().filter(|choice| choice.interrupts()).count();
            let may_leave = stays.is_none() || interruptions < self.most_interruptions;
            let options = options.iter().copied().filter(|option| may_leave || *option == current).collect();
            self.made.push(Choice { options, chosen: 0, stays });
        }
        let choice = &self.made[self.at];
        self.at += 1;
        choice.options.get(choice.chosen).copied()
    }

    fn not_this(&mut self) {
        self.at -= 1;
        let choice = &mut self.made[self.at];
        choice.options.remove(choice.chosen);
        // What is left was all tried before: one of it is gone through again.
        choice.chosen = choice.chosen.min(choice.options.len().saturating_sub(1));
    }
}

impl Choices {
    /// Whether another thread may go on at a step of this name.
    pub(crate) fn is_choice(&self, step: &str) -> bool {
        match self {
            Self::All(all) => all.at_steps.is_none_or(|steps| steps.contains(&step)),
            Self::Random { .. } => true,
        }
    }

    /// Chooses one of these threads, the first of which, so many, may be `blocked` still.
    pub(crate) fn next(&mut self, options: &[usize], blocked: usize, current: usize) -> Option<usize> {
        if options.is_empty() {
            return None;
        }
        match self {
            Self::Random { dice, once_in } => {
                let can_stay = options[blocked..].contains(&current);
                let stays = can_stay && !dice.once_in(*once_in);
                Some(if stays { current } else { options[dice.below(options.len())] })
            }
            Self::All(all) => all.next(options, blocked, current),
        }
    }

    /// The thread that was chosen last can still not go on: it is no choice there, and another one is chosen.
    pub(crate) fn not_this(&mut self) {
        if let Self::All(all) = self {
            all.not_this();
        }
    }
}
