//! What a column makes of a value (<https://sqlite.org/datatype3.html#determination_of_column_affinity>).

use crate::schema::constant::Constant;

/// The affinity of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Values stay as they are.
    Blob,
    /// Numbers become texts.
    Text,
    /// Texts that look like numbers become numbers.
    Numeric,
    /// The same as `Numeric`, but for casts.
    Integer,
    /// As `Numeric`, and integers become floating-point numbers.
    Real,
}

impl Affinity {
    /// That of a column of this type: SQLite looks for parts of words, from left to right.
    pub(crate) fn of(declared: &str) -> Self {
        if declared.is_empty() {
            return Self::Blob;
        }
        let declared = declared.to_ascii_lowercase();
        let mut affinity = Self::Numeric;
        for (at, _) in declared.char_indices() {
            let rest = declared.get(at..).unwrap_or_default();
            if rest.starts_with("int") {
                return Self::Integer;
            }
            if ["char", "clob", "text"].iter().any(|word| rest.starts_with(word)) {
                affinity = Self::Text;
            } else if rest.starts_with("blob") && matches!(affinity, Self::Numeric | Self::Real) {
                affinity = Self::Blob;
            } else if ["real", "floa", "doub"].iter().any(|word| rest.starts_with(word))
                && affinity == Self::Numeric
            {
                affinity = Self::Real;
            }
        }
        affinity
    }

    /// What a column of this affinity makes of a value.
    pub(crate) fn apply(self, value: Constant) -> Constant {
        match (self, value) {
            (Self::Text, Constant::Integer(number)) => Constant::Text(number.to_string()),
            (Self::Numeric | Self::Integer | Self::Real, Constant::Text(text)) => match number(&text) {
                Some(value) => self.apply(value),
                None => Constant::Text(text),
            },
            (Self::Numeric | Self::Integer, Constant::Real(real)) => {
                whole(real).map_or(Constant::Real(real), Constant::Integer)
            }
            #[allow(clippy::cast_precision_loss, reason = "as SQLite does it")]
            (Self::Real, Constant::Integer(number)) => Constant::Real(number as f64),
            (_, value) => value,
        }
    }
}

/// The integer that a real number is, if it is one that fits.
fn whole(real: f64) -> Option<i64> {
    let is_whole = real.fract() == 0.0 && real.abs() < 9.0e18;
    #[allow(clippy::cast_possible_truncation, reason = "it is whole, and in range")]
    is_whole.then_some(real as i64)
}

/// The number that a text is, if it is one from its first character to its last.
pub(crate) fn number(text: &str) -> Option<Constant> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    if !text.contains(|c: char| c.is_ascii_digit()) || text.contains(|c: char| !"0123456789+-.eE".contains(c))
    {
        return None;
    }
    match text.parse() {
        Ok(integer) => Some(Constant::Integer(integer)),
        Err(_) => text.parse().ok().map(Constant::Real),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_have_the_affinity_that_sqlite_gives_them() {
        for (declared, affinity) in [
            ("", Affinity::Blob),
            ("BLOB", Affinity::Blob),
            ("varchar(20)", Affinity::Text),
            ("FLOATING POINT", Affinity::Integer),
            ("double precision", Affinity::Real),
            ("DECIMAL(10,5)", Affinity::Numeric),
            ("CHARINT", Affinity::Integer),
            ("REAL TEXT", Affinity::Text),
        ] {
            assert_eq!(Affinity::of(declared), affinity, "{declared}");
        }
    }

    #[test]
    fn values_become_what_the_column_makes_of_them() {
        let text = |text: &str| Constant::Text(text.to_owned());
        assert_eq!(Affinity::Integer.apply(text(" 12 ")), Constant::Integer(12));
        assert_eq!(Affinity::Numeric.apply(text("1e2")), Constant::Integer(100));
        assert_eq!(Affinity::Real.apply(text("5")), Constant::Real(5.0));
        assert_eq!(Affinity::Numeric.apply(text("5a")), text("5a"));
        assert_eq!(Affinity::Text.apply(Constant::Integer(5)), text("5"));
    }
}
