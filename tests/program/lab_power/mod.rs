//! Whenever the power goes or the daemon dies, nothing that was acknowledged is lost, and no volume is left that nobody
//! speaks of.

mod boundaries;
mod cuts;
mod records;
mod unfrozen;
mod work;
