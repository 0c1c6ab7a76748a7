//! What older versions of asat have left.

use std::path::Path;

/// A catalogue as the asat before this one made it.
pub fn make_catalogue_of_before(path: &Path) {
    let schemas = [
        include_str!("../../../crates/catalogue/src/schema/1.sql"),
        include_str!("../../../crates/catalogue/src/schema/2.sql"),
        include_str!("../../../crates/catalogue/src/schema/3.sql"),
        include_str!("../../../crates/catalogue/src/schema/4.sql"),
        include_str!("../../../crates/catalogue/src/schema/5.sql"),
        include_str!("../../../crates/catalogue/src/schema/6.sql"),
        include_str!("../../../crates/catalogue/src/schema/7.sql"),
        include_str!("../../../crates/catalogue/src/schema/8.sql"),
        include_str!("../../../crates/catalogue/src/schema/9.sql"),
    ];
    let catalogue = rusqlite::Connection::open(path).unwrap();
    catalogue.pragma_update(None, "application_id", 0x6173_6174).unwrap();
    catalogue.pragma_update(None, "foreign_keys", false).unwrap();
    schemas.iter().for_each(|schema| catalogue.execute_batch(schema).unwrap());
    catalogue.pragma_update(None, "user_version", 9).unwrap();
}
