//! What came of a session whose run was killed, read from its log.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::facts::{Facts, Observer};
use super::lines::Lines;
use super::stream::Parser;

/// The facts of the session in this log; none if it can't be read.
pub fn facts_in_log(log: &Path) -> Option<Facts> {
    let mut file = File::open(log).ok()?;
    let (mut parser, mut observer) = (Parser::new(), Observer::new());
    let mut take = |line: &[u8]| {
        parser.parse(line, &mut |event| observer.observe(&event));
    };
    let mut lines = Lines::default();
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = file.read(&mut buffer) {
        lines.push(&buffer[..count], &mut take);
    }
    lines.finish(&mut take);
    Some(observer.into_facts(None))
}
