//! What to do next, attached to an error at the place that knows it.

use std::fmt;

/// An error with a hint; it reads like the error alone.
#[derive(Debug)]
pub struct Hinted {
    source: anyhow::Error,
    hint: String,
}

impl Hinted {
    /// What to do next.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// Attaches a hint to the error of a result.
pub trait HintExt<T> {
    /// The same, with a hint if it is an error.
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T>;
}

impl<T> HintExt<T> for anyhow::Result<T> {
    fn hint(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|source| Hinted { source, hint: hint.into() }.into())
    }
}
