//! The integration tests: the real binary on real files.
