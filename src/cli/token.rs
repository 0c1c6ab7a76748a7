//! The token to present, from the file that holds it.

use std::path::Path;

use asat_client::Token;
use asat_core::{Code, Problem};

use super::signals::Waiting;
use crate::secret;

/// More than any file with one token holds.
const MAX_TOKEN_FILE: u64 = 16 << 10;

/// Reads the token in a file that nobody else may read.
pub(super) fn read(file: &Path) -> Result<Token, Problem> {
    // It may be a pipe that nobody writes to.
    let _waiting = Waiting::begin();
    let text = secret::read("the token file", file, MAX_TOKEN_FILE)?;
    Token::read(&text).ok_or_else(|| {
        let detail = format!("the token file {} holds no token", file.display());
        Problem::new(Code::Configuration, detail, "name a file that holds one token on one line")
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_token_is_read_where_nobody_else_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        assert_eq!(read(&file).unwrap_err().code, Code::Configuration);
        for (text, is_token) in [("s3cret\n", true), ("", false), ("two words", false)] {
            fs::write(&file, text).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
            let read = read(&file);
            assert_eq!(read.is_ok(), is_token, "{text:?}");
            assert!(read.err().is_none_or(|problem| problem.detail.ends_with("token holds no token")));
        }
        fs::write(&file, "s3cret\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let problem = read(&file).unwrap_err();
        assert!(problem.hint.starts_with("run: chmod"), "{problem}");
    }
}
