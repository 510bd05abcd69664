//! GRUB 2's text formats: `grub.cfg` (`menu`), the environment block (`env`), and our script for
//! `grub-mkconfig` (`generator`). Pure.

pub mod env;
pub mod generator;
pub mod menu;
