//! As much HTTP/1.1 as Claude Code speaks.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::Value;

/// What a client has sent.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) method: String,
    pub(super) target: String,
    headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Call {
    /// The next call on a connection; none once the client has closed it.
    pub(super) fn read(connection: &mut BufReader<TcpStream>) -> io::Result<Option<Call>> {
        let mut line = String::new();
        if connection.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            connection.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut call = Call { method, target, headers, body: Vec::new() };
        let length = call.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        call.body.resize(length, 0);
        connection.read_exact(&mut call.body)?;
        Ok(Some(call))
    }

    /// The value of a header, by its name in small letters.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_str())
    }
}

/// Answers with a whole document.
pub(super) fn send_json(
    connection: &mut impl Write,
    status: u16,
    headers: &[(&str, String)],
    document: &Value,
) -> io::Result<()> {
    let body = document.to_string();
    let length = ("content-length", body.len().to_string());
    let kind = ("content-type", "application/json".to_owned());
    send_head(connection, status, headers.iter().cloned().chain([kind, length]))?;
    connection.write_all(body.as_bytes())
}

/// Answers with a page for people.
pub(super) fn send_page(connection: &mut impl Write, status: u16) -> io::Result<()> {
    let page =
        "<!DOCTYPE html><html><head><title>Wi-Fi login</title></head><body>Log in</body></html>";
    let length = ("content-length", page.len().to_string());
    let kind = ("content-type", "text/html".to_owned());
    send_head(connection, status, [kind, length].into_iter())?;
    connection.write_all(page.as_bytes())
}

/// An answer that goes on, event by event.
pub(super) struct EventStream<'a, W: Write> {
    connection: &'a mut W,
}

impl<'a, W: Write> EventStream<'a, W> {
    pub(super) fn begin(connection: &'a mut W, headers: &[(&str, String)]) -> io::Result<Self> {
        let kind = ("content-type", "text/event-stream; charset=utf-8".to_owned());
        let coding = ("transfer-encoding", "chunked".to_owned());
        send_head(connection, 200, headers.iter().cloned().chain([kind, coding]))?;
        Ok(EventStream { connection })
    }

    pub(super) fn send(&mut self, name: &str, payload: &Value) -> io::Result<()> {
        let event = format!("event: {name}\ndata: {payload}\n\n");
        write!(self.connection, "{:x}\r\n{event}\r\n", event.len())?;
        self.connection.flush()
    }

    pub(super) fn end(self) -> io::Result<()> {
        write!(self.connection, "0\r\n\r\n")
    }
}

fn send_head<'a>(
    connection: &mut impl Write,
    status: u16,
    headers: impl Iterator<Item = (&'a str, String)>,
) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {status} -\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    connection.write_all((head + "\r\n").as_bytes())
}
