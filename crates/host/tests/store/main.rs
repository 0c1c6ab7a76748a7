//! Reading live stores: what is read, what is refused, and what the store's other users notice.

#[cfg(test)]
mod asking;
#[cfg(test)]
mod changed;
#[cfg(test)]
mod checks;
#[cfg(test)]
mod common;
#[cfg(test)]
mod consistency;
#[cfg(test)]
mod content;
#[cfg(test)]
mod frozen;
#[cfg(test)]
mod helper;
#[cfg(test)]
mod links;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod own_locks;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod restore;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod sidecars;
#[cfg(test)]
mod still;
#[cfg(test)]
mod tracking;
#[cfg(test)]
mod transfers;
#[cfg(test)]
mod witness;
