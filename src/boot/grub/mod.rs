//! GRUB 2's own texts: what `grub-mkconfig` made (`menu`), the environment block (`env`), and the
//! script of ours that it runs (`generator`). Pure.

pub mod env;
pub mod generator;
pub mod menu;
