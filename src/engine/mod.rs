//! Joins store, prompts and agents into work that goes on by itself. It knows nothing of flags and
//! colours.

mod clock;
mod git;
mod judge;
mod limits;
mod model;
mod signals;
mod stop;

pub use clock::Clock;
pub use model::Strategy;
pub use signals::forward_signals;
pub use stop::{Bounds, Reached};
