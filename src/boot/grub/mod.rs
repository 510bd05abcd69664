//! GRUB 2's text formats: `grub.cfg` (`menu`), the environment block (`env`), and our script for
//! `grub-mkconfig` (`generator`) with its test for kernels that are installed later
//! (`later_kernels`). Pure, except that this test reads the configurations of kernels.

pub mod env;
pub mod generator;
pub mod later_kernels;
pub mod menu;
