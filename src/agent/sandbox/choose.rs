//! Which back end holds the sessions, and why: decided from what was asked for and what works here.

use std::path::PathBuf;

use anyhow::{Result, anyhow};

use super::Sandbox;
use crate::hint::HintExt;
use crate::settings::{Backend, Network, SandboxSettings};

/// What works on this machine; of what does not, why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// The program, if it can make a sandbox.
    pub bwrap: Result<PathBuf, String>,
    /// What the kernel has of Landlock.
    pub landlock: Result<Landlock, String>,
    /// Whether there is the sandbox of macOS.
    pub seatbelt: Result<(), String>,
    /// Whether Docker knows sandboxes.
    pub docker: Result<(), String>,
}

/// What the kernel has of Landlock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Landlock {
    /// The version of its interface.
    pub version: u32,
    /// Whether a process can have namespaces of its own; if not, why not.
    pub namespaces: Result<(), String>,
}

impl Here {
    /// A machine on which nothing was looked for.
    pub fn nothing() -> Here {
        let why = || "it was not looked for".to_owned();
        Here { bwrap: Err(why()), landlock: Err(why()), seatbelt: Err(why()), docker: Err(why()) }
    }

    /// The back ends that work.
    pub fn names(&self) -> Vec<&'static str> {
        let works = [
            (Backend::Bwrap, self.bwrap.is_ok()),
            (Backend::Landlock, self.landlock.is_ok()),
            (Backend::Seatbelt, self.seatbelt.is_ok()),
            (Backend::Docker, self.docker.is_ok()),
        ];
        works.into_iter().filter(|(_, works)| *works).map(|(backend, _)| backend.name()).collect()
    }
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// What holds the sessions; nothing, if none.
    pub sandbox: Option<Sandbox>,
    /// Which it is, why, and what it can't do: for one line to the user, behind `sandbox: `.
    pub message: String,
}

/// The first version that keeps a process from signalling others.
const KNOWS_SIGNALS: u32 = 6;
/// The first version that keeps a process from cutting files short.
const KNOWS_TRUNCATION: u32 = 3;

/// Chooses what holds the sessions. What is asked for by name is taken or is an error; `auto` takes the
/// strongest that works here, and nothing only if nothing more than that was asked for.
pub fn choose(settings: &SandboxSettings, here: &Here) -> Result<Choice> {
    match settings.backend {
        Backend::None => none(settings, "it is turned off"),
        Backend::Auto => auto(settings, here),
        named => {
            let name = named.name();
            let sandbox = offer(named, settings, here)
                .map_err(|why| anyhow!("the sandbox `{name}` is not available: {why}"))
                .hint(
                    "`ralph doctor` tells what works here; `--sandbox auto` takes the best of it",
                )?;
            Ok(Choice { message: format!("{name}{}", but(&sandbox)), sandbox: Some(sandbox) })
        }
    }
}

/// From the strongest on. Docker comes only by name: its machine has another agent, and no ralph.
const STRENGTH: [Backend; 3] = [Backend::Bwrap, Backend::Landlock, Backend::Seatbelt];

fn auto(settings: &SandboxSettings, here: &Here) -> Result<Choice> {
    let mut refusals = Vec::new();
    for backend in STRENGTH {
        match offer(backend, settings, here) {
            Ok(sandbox) => {
                let message = format!("{}{}", backend.name(), but(&sandbox));
                let message = match refusals.is_empty() {
                    true => message,
                    false => format!("{message} ({})", refusals.join("; ")),
                };
                return Ok(Choice { sandbox: Some(sandbox), message });
            }
            Err(why) => refusals.push(format!("{}: {why}", backend.name())),
        }
    }
    none(settings, &refusals.join("; "))
}

/// The back end, unless it does not work here or can't do what was asked for.
fn offer(backend: Backend, settings: &SandboxSettings, here: &Here) -> Result<Sandbox, String> {
    match backend {
        Backend::Auto | Backend::None => Err("it is no back end".to_owned()),
        Backend::Bwrap => Ok(Sandbox::Bwrap { program: here.bwrap.clone()? }),
        Backend::Landlock => {
            let landlock = here.landlock.clone()?;
            if let Err(why) = &landlock.namespaces {
                if settings.network == Network::None {
                    return Err(format!("without namespaces it can't close the network: {why}"));
                }
                if !settings.deny_read.is_empty() {
                    return Err(format!("without namespaces it can't hide files: {why}"));
                }
            }
            let Landlock { version, namespaces } = landlock;
            Ok(Sandbox::Landlock { version, namespaces: namespaces.is_ok() })
        }
        Backend::Seatbelt => here.seatbelt.clone().map(|()| Sandbox::Seatbelt),
        Backend::Docker => {
            here.docker.clone()?;
            if settings.network == Network::None {
                return Err("it can't close the network".to_owned());
            }
            Ok(Sandbox::Docker { template: settings.template.clone() })
        }
    }
}

/// What a sandbox leaves open, to be said behind its name.
fn but(sandbox: &Sandbox) -> String {
    let Sandbox::Landlock { version, namespaces } = sandbox else { return String::new() };
    let mut gaps = Vec::new();
    if !namespaces {
        gaps.push("protect .git/hooks, .git/config, .claude and what else steers programs later");
        gaps.push("hide sockets such as docker's");
        gaps.push("keep the modes of files as they are");
    }
    if *version < KNOWS_SIGNALS {
        gaps.push("keep a session from signalling other processes");
    }
    if *version < KNOWS_TRUNCATION {
        gaps.push("keep it from emptying files");
    }
    match gaps.is_empty() {
        true => String::new(),
        false => format!("; here it can't {}", gaps.join(", or ")),
    }
}

/// Nothing, which is an error if what was asked for needs something.
fn none(settings: &SandboxSettings, why: &str) -> Result<Choice> {
    let needed = match settings {
        SandboxSettings { network: Network::None, .. } => Some("`sandbox.network` is `none`"),
        SandboxSettings { deny_read, .. } if !deny_read.is_empty() => {
            Some("`sandbox.deny_read` names something")
        }
        _ => None,
    };
    match needed {
        None => Ok(Choice {
            sandbox: None,
            message: format!("none ({why}): agents may use the allowed tools only"),
        }),
        Some(needed) => Err(anyhow!("{needed}, which needs a sandbox, and there is none: {why}"))
            .hint("`ralph doctor` tells what works here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hint::hint_of;
    use crate::settings::Settings;

    fn nothing() -> Here {
        Here {
            bwrap: Err("`bwrap` was not found".into()),
            landlock: Err("this kernel has none".into()),
            seatbelt: Err("this is not macOS".into()),
            docker: Err("`docker` was not found".into()),
        }
    }

    fn landlock(version: u32, namespaces: bool) -> Result<Landlock, String> {
        let namespaces = if namespaces { Ok(()) } else { Err("EPERM".to_owned()) };
        Ok(Landlock { version, namespaces })
    }

    fn everything() -> Here {
        Here {
            bwrap: Ok("/usr/bin/bwrap".into()),
            landlock: landlock(7, true),
            seatbelt: Ok(()),
            docker: Ok(()),
        }
    }

    fn asked(backend: Backend) -> SandboxSettings {
        SandboxSettings { backend, ..Settings::default().sandbox }
    }

    fn message(settings: &SandboxSettings, here: &Here) -> String {
        match choose(settings, here) {
            Ok(choice) => choice.message,
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn auto_takes_the_strongest_and_says_why() {
        let auto = asked(Backend::Auto);
        let said = |here: &Here| message(&auto, here);
        assert_eq!(said(&everything()), "bwrap");
        let here = Here { landlock: landlock(7, true), ..nothing() };
        assert_eq!(said(&here), "landlock (bwrap: `bwrap` was not found)");
        let here = Here { seatbelt: Ok(()), ..nothing() };
        assert_eq!(
            said(&here),
            "seatbelt (bwrap: `bwrap` was not found; landlock: this kernel has none)"
        );
        let here = Here { docker: Ok(()), ..nothing() };
        assert_eq!(
            said(&here),
            "none (bwrap: `bwrap` was not found; landlock: this kernel has none; \
             seatbelt: this is not macOS): agents may use the allowed tools only"
        );
    }

    #[test]
    fn what_landlock_can_not_do_is_said() {
        let said = |version, namespaces| {
            let here = Here { landlock: landlock(version, namespaces), ..nothing() };
            message(&asked(Backend::Landlock), &here)
        };
        assert_eq!(said(7, true), "landlock");
        assert_eq!(
            said(7, false),
            "landlock; here it can't protect .git/hooks, .git/config, .claude and what else steers \
             programs later, or hide sockets such as docker's, or keep the modes of files as they are"
        );
        assert_eq!(
            said(1, true),
            "landlock; here it can't keep a session from signalling other processes, or keep it from \
             emptying files"
        );
    }

    #[test]
    fn what_was_asked_for_by_name_is_taken_or_an_error() {
        for backend in [Backend::Bwrap, Backend::Landlock, Backend::Seatbelt, Backend::Docker] {
            let choice = choose(&asked(backend), &everything()).unwrap();
            assert_eq!(choice.message, format!("{}", backend.name()));
            assert!(choice.sandbox.is_some());
            let error = choose(&asked(backend), &nothing()).unwrap_err();
            let start = format!("the sandbox `{}` is not available: ", backend.name());
            assert!(error.to_string().starts_with(&start), "{error}");
            assert!(hint_of(&error).is_some());
        }
        let choice = choose(&asked(Backend::None), &everything()).unwrap();
        assert_eq!(choice.sandbox, None);
    }

    #[test]
    fn a_closed_network_is_closed_or_an_error() {
        let closed = |backend| SandboxSettings { network: Network::None, ..asked(backend) };
        let alone = Here { landlock: landlock(7, false), ..everything() };
        assert_eq!(message(&closed(Backend::Auto), &alone), "bwrap");
        for (backend, here, why) in [
            (Backend::Landlock, &alone, "without namespaces it can't close the network: EPERM"),
            (Backend::Docker, &alone, "it can't close the network"),
            (Backend::None, &alone, "needs a sandbox, and there is none: it is turned off"),
            (Backend::Auto, &nothing(), "needs a sandbox, and there is none: bwrap: `bwrap`"),
        ] {
            let said = message(&closed(backend), here);
            assert!(said.starts_with("error: ") && said.contains(why), "{said}");
        }
    }

    #[test]
    fn what_may_not_be_read_is_hidden_or_an_error() {
        let hiding =
            |backend| SandboxSettings { deny_read: vec!["~/.ssh".into()], ..asked(backend) };
        let alone = Here { landlock: landlock(7, false), ..nothing() };
        assert!(message(&hiding(Backend::Landlock), &alone).contains("it can't hide files: EPERM"));
        assert!(message(&hiding(Backend::Auto), &alone).contains("`sandbox.deny_read` names"));
        assert_eq!(message(&hiding(Backend::Bwrap), &everything()), "bwrap");
    }
}
