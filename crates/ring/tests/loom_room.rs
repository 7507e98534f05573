//! The unit tests of `room` and what it stands on, under `loom`: two sleepers cannot be reached through the ring's own
//! interface without spinning, of which there is no end to explore.
#![cfg(loom)]
#![allow(dead_code, unused_imports)]

#[path = "../src/room.rs"]
mod room;
#[path = "../src/sync.rs"]
mod sync;
