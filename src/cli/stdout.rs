//! Stdout, of which an error says that it is about printing.

use std::io::{self, Write};

/// The program's stdout.
#[derive(Debug)]
pub(super) struct Printed<W: Write>(pub(super) W);

impl<W: Write> Write for Printed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| explained(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| explained(&error))
    }
}

/// The same error, of the same kind: an interrupted write is tried again, a broken pipe is no failure.
pub(super) fn explained(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("can't print: {error}"))
}

/// Whether something could not be printed because its reader is gone.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
