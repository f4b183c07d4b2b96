//! Stdout, of which an error says that it is about printing.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

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

/// Output whose `flush` also tells that its reader is gone when there was nothing to write.
#[derive(Debug)]
pub(super) struct Heard<W: Write + AsFd>(pub(super) W);

impl<W: Write + AsFd> Write for Heard<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()?;
        // What is asked for is nothing: that a pipe is broken is told in any case.
        let mut output = [PollFd::new(&self.0, PollFlags::empty())];
        let _ = poll(&mut output, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        let [output] = output;
        if output.revents().intersects(PollFlags::ERR | PollFlags::HUP) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_is_gone_is_noticed_without_a_word() {
        let (reader, writer) = io::pipe().unwrap();
        let mut out = Heard(writer);
        out.write_all(b"hello").unwrap();
        out.flush().unwrap();
        drop(reader);
        assert_eq!(out.flush().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
