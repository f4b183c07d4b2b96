//! The keys that a run knows while it shows itself on a terminal: `p` holds it, and lets it go on.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal with keys that arrive one by one and are not shown; as before when dropped.
#[derive(Debug)]
pub(super) struct Keyboard {
    modes: Termios,
}

impl Keyboard {
    /// Listens to the keys of the terminal; none if it is no terminal.
    pub(super) fn listen(pause: &Path) -> Option<Keyboard> {
        let modes = tcgetattr(io::stdin().as_fd()).ok()?;
        let mut by_key = modes.clone();
        by_key.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &by_key).ok()?;
        let pause = pause.to_owned();
        thread::spawn(move || read(&pause));
        Some(Keyboard { modes })
    }

    /// What makes the terminal as it was, for whoever has to end the process without us.
    pub(super) fn restorer(&self) -> impl Fn() + Send + 'static {
        let modes = Modes(self.modes.clone());
        move || modes.set()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        Modes(self.modes.clone()).set();
    }
}

struct Modes(Termios);

impl Modes {
    fn set(&self) {
        let _ = tcsetattr(io::stdin().as_fd(), OptionalActions::Now, &self.0);
    }
}

fn read(pause: &PathBuf) {
    for key in io::stdin().lock().bytes().map_while(Result::ok) {
        if key == b'p' {
            // A file that can't be made or removed is seen by everybody: nothing happens.
            let _ = if pause.exists() {
                std::fs::remove_file(pause)
            } else {
                std::fs::write(pause, "")
            };
        }
    }
}
