//! Joins store, prompts and agents into work that goes on by itself. It knows nothing of flags and
//! colours.

mod signals;

pub use signals::forward_signals;
