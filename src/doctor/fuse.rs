//! Whether versions can be read by their paths, judged.

use asat_core::Problem;
use asat_host::tree::Reach;

use super::facts::{Mountable, Tree};
use super::finding::{Finding, Group, Level};

/// `reach` is what can be had whatever the configuration is, `tree` what that asks for; without it, versions are read as copies.
pub(super) fn judge(reach: &Reach, tree: Option<&Tree>) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Machine, "fuse", level, what);
    match (tree, reach) {
        (Some(tree), _) => judge_tree(tree),
        (None, Reach::None(why)) => {
            finding(Level::Note, format!("FUSE cannot be had: {why}; the configuration asks for none"))
        }
        (None, reach) => finding(
            Level::Ok,
            format!("FUSE {}; without a section [fuse], versions are read as copies", by(reach)),
        ),
    }
}

/// The tree that is asked for: the daemon does without where it cannot be mounted.
fn judge_tree(Tree { root, found }: &Tree) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Machine, "fuse", level, what);
    match found {
        Mountable::Yes(reach) => {
            finding(Level::Ok, format!("FUSE {}; versions are read below {}", by(reach), root.display()))
        }
        Mountable::No(Problem { detail, hint, .. }) => {
            finding(Level::Warning, format!("{detail}; versions are read as copies")).advise(hint)
        }
        Mountable::Dead(Problem { detail, hint, .. }) => finding(Level::Warning, detail.clone()).advise(hint),
        Mountable::Unknown(Problem { detail, .. }) => finding(
            Level::Note,
            format!("whether versions can be read below {} cannot be seen: {detail}", root.display()),
        )
        .advise("run `asat doctor` as the daemon's user"),
    }
}

fn by(reach: &Reach) -> &'static str {
    if *reach == Reach::Helper { "can be had by fusermount3" } else { "can be had" }
}

#[cfg(test)]
mod tests {
    use asat_core::Code;

    use super::*;

    #[test]
    fn what_is_missing_is_a_warning_only_where_it_is_asked_for() {
        let problem = |detail: &str| Problem::new(Code::Configuration, detail, "do this");
        let none = || Reach::None("there is no /dev/fuse".to_owned());
        for (reach, found, level, said, advised) in [
            (
                Reach::Direct,
                Some(Mountable::Yes(Reach::Direct)),
                Level::Ok,
                "versions are read below /srv/versions",
                None,
            ),
            (Reach::Helper, Some(Mountable::Yes(Reach::Helper)), Level::Ok, "by fusermount3", None),
            (Reach::Direct, None, Level::Ok, "as copies", None),
            (
                Reach::Direct,
                Some(Mountable::No(problem("it is in the way"))),
                Level::Warning,
                "it is in the way; versions are read as copies",
                Some("do this"),
            ),
            (
                Reach::Direct,
                Some(Mountable::Dead(problem("the tree is dead"))),
                Level::Warning,
                "the tree is dead",
                Some("do this"),
            ),
            (
                Reach::Direct,
                Some(Mountable::Unknown(problem("cannot read it"))),
                Level::Note,
                "cannot be seen: cannot read it",
                Some("run `asat doctor` as the daemon's user"),
            ),
            (none(), None, Level::Note, "asks for none", None),
        ] {
            let tree = found.map(|found| Tree { root: "/srv/versions".into(), found });
            let finding = judge(&reach, tree.as_ref());
            assert_eq!((finding.level, finding.check), (level, "fuse"));
            assert!(finding.what.contains(said), "{}", finding.what);
            assert_eq!(finding.advice.as_deref(), advised);
        }
    }
}
