//! Whether versions can be read by their paths, judged.

use std::path::Path;

use asat_host::tree::Reach;

use super::finding::{Finding, Group, Level};

/// `root` is where the configuration wants the tree; without FUSE, versions are read as copies.
pub(super) fn judge(reach: &Reach, root: Option<&Path>) -> Finding {
    let finding = |level, what: String| Finding::new(Group::Machine, "fuse", level, what);
    let by = match reach {
        Reach::Direct => "can be had",
        Reach::Helper => "can be had by fusermount3",
        Reach::None(why) if root.is_none() => {
            return finding(
                Level::Note,
                format!("FUSE cannot be had: {why}; the configuration asks for none"),
            );
        }
        Reach::None(why) => {
            let what = format!("FUSE cannot be had: {why}; versions are read as copies");
            let advice =
                "load the kernel's module (modprobe fuse), and run the daemon as root or install fuse3";
            return finding(Level::Warning, what).advise(advice);
        }
    };
    match root {
        Some(root) => finding(Level::Ok, format!("FUSE {by}; versions are read below {}", root.display())),
        None => {
            finding(Level::Ok, format!("FUSE {by}; without a section [fuse], versions are read as copies"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_a_warning_only_where_it_is_asked_for() {
        let none = Reach::None("there is no /dev/fuse".to_owned());
        let root = Some(Path::new("/srv/versions"));
        for (reach, root, level, said) in [
            (&Reach::Direct, root, Level::Ok, "versions are read below /srv/versions"),
            (&Reach::Helper, root, Level::Ok, "by fusermount3"),
            (&Reach::Direct, None, Level::Ok, "as copies"),
            (&none, root, Level::Warning, "there is no /dev/fuse; versions are read as copies"),
            (&none, None, Level::Note, "asks for none"),
        ] {
            let found = judge(reach, root);
            assert_eq!((found.level, found.check), (level, "fuse"));
            assert!(found.what.contains(said), "{}", found.what);
        }
    }
}
