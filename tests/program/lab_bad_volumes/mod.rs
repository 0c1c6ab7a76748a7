//! Volumes that are full, broken, gone, or somebody else's: each is a clear answer and never a loss. What was published
//! before stays as it was, foreign volumes are left alone, and when the trouble is over publishing goes on and no volume
//! of asat's is left behind.

mod anew;
mod beside;
mod choice;
mod foreign;
mod gone;
mod grounds;
mod lost;
mod places;
mod room;
mod site;
mod stuck;
