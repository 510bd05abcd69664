//! GRUB 2's text formats: `grub.cfg` (`menu`), the environment block (`env`), and our script for
//! `grub-mkconfig` (`generator`) with its test for real-time kernels (`realtime_test`). Pure.

pub mod env;
pub mod generator;
pub mod menu;
pub(super) mod realtime_test;
