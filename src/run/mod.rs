//! Run: programs in the shield. Starts one, takes running ones in and lets them out, and shows what
//! is on the shielded CPUs. It takes the plan of the active shield; it does not change the shield
//! itself.
//!
//! A program that nothing must be undone for is started in place: this process enters the shield
//! and becomes the program, so that nothing of ours is left (`start`). Otherwise a parent waits on
//! a housekeeping CPU and puts back what was changed for the program's time (`attend`).
//!
//! A real-time program that never sleeps starves the kernel's own threads of its CPU, and a
//! PREEMPT_RT kernel hangs without them. `order` (pure) says which threads must be above it and
//! `raise` puts them there; there is no way around it.

mod error;
mod order;
mod place;
mod user;

pub use error::RunError;
pub use order::{Order, PRIORITY_MAX, Thread, is_above, is_vital, order};
pub use place::Place;
pub use user::{User, look_up};
