//! A session held by a Docker sandbox: a machine of its own that sees the project and little else.

use std::ffi::OsString;

use super::super::claude::{Invocation, Stdin};
use super::policy::Policy;

/// What is of no use in another machine.
const OURS: [&str; 2] = ["PATH", "RALPH_SOCKET"];

pub(super) fn wrap(template: &str, policy: &Policy, invocation: Invocation) -> Invocation {
    let mut arguments: Vec<OsString> =
        ["sandbox", "run", "--credentials", "host", "--template", template].map(Into::into).into();
    arguments.extend(["--workspace".into(), policy.project.clone().into()]);
    let outside = [&policy.git, &policy.temporary, &policy.allowed];
    for path in outside.into_iter().flatten().filter(|it| !it.starts_with(&policy.project)) {
        arguments.extend(["--volume".into(), joined(&[path.as_os_str(), path.as_os_str()], ":")]);
    }
    for (name, value) in invocation.variables.iter().filter(|(name, _)| !OURS.contains(name)) {
        arguments.extend(["--env".into(), joined(&[name.as_ref(), value], "=")]);
    }
    arguments.push("claude".into());
    arguments.extend(invocation.arguments);
    if let Stdin::File(prompt) = &invocation.stdin {
        // Its stdin has to be a terminal; but it sees the same temporary files.
        let message = format!("Read `{}` and do what it says.", prompt.display());
        arguments.extend(["--".into(), message.into()]);
    }
    Invocation { program: "docker".into(), arguments, stdin: Stdin::Terminal, ..invocation }
}

fn joined(parts: &[&std::ffi::OsStr], by: &str) -> OsString {
    parts.join(by.as_ref())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{invocation, policy, shown};
    use super::*;

    #[test]
    fn it_sees_the_project_and_what_it_needs_besides() {
        let wrapped = wrap("ralph-sandbox:latest", &policy(), invocation());
        insta::assert_snapshot!(shown(&wrapped), @"
        docker sandbox run
        --credentials host
        --template ralph-sandbox:latest
        --workspace /home/u/project
        --volume /tmp:/tmp
        --env RALPH_TASK_ID=t-000001 claude
        --print a b
        ");
        assert_eq!(wrapped.stdin, Stdin::Terminal);
    }

    #[test]
    fn a_prompt_is_named_because_stdin_has_to_be_a_terminal() {
        let stdin = Stdin::File("/tmp/s/prompt.md".into());
        let wrapped = wrap("image", &policy(), Invocation { stdin, ..invocation() });
        let last: Vec<_> = wrapped.arguments.iter().rev().take(2).rev().collect();
        assert_eq!(last, ["--", "Read `/tmp/s/prompt.md` and do what it says."]);
    }
}
