//! The world misbehaves while a command runs: no space, no permission, locks that others hold, a clock
//! that jumps, directories that are not there, a database that is not all there.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use rusqlite::Connection;

use crate::calls::{Call, Ended, Expected, Fault, Files, Start, Tally, World, settle};
use crate::crew;
use crate::harness::RALPH;
use crate::report::Row;
use crate::shim::Shim;
use crate::{Dose, Drill};

pub(crate) const DRILL: Drill = Drill {
    name: "faults",
    about: "Every command while something is wrong with the machine, and again when it is not.",
    run,
};

const DATABASE: &str = ".ralph/progress.db";
const WAL: &str = ".ralph/progress.db-wal";

/// Fills a small file system up to so many kilobytes, calls ralph there, and gives back what it left.
const FULL_DISK: &str = r#"
    root=$1 hold=$2 free=$3; shift 3
    mount -t tmpfs -o size=8m tmpfs "$root" && cp -a "$hold/." "$root/" && cd "$root" || exit 77
    dd if=/dev/zero of=ballast bs=4096 2>/dev/null
    truncate -s "-${free}K" ballast || exit 78
    "$@"; code=$?
    rm -rf ballast "$hold" && mkdir "$hold" && cp -a "$root/." "$hold/" || exit 79
    exit $code"#;
const FULL_TEMPORARY: &str = r#"
    mount -t tmpfs -o size=64k tmpfs "$TMPDIR" || exit 77
    dd if=/dev/zero of="$TMPDIR/ballast" bs=4096 2>/dev/null
    exec "$@""#;
const READ_ONLY: &str = r#"
    root=$1; shift
    mount --bind "$root" "$root" && mount -o remount,bind,ro "$root" && cd "$root" || exit 77
    exec "$@""#;
const GONE: &str = r#"mkdir gone && cd gone && rmdir ../gone && exec "$@""#;

fn run(dose: &mut Dose) -> Result<Vec<Row>> {
    let plan = Plan::new(dose);
    let mut tally = Tally::default();
    let mut skipped = Vec::new();
    for theirs in crew::work(|worker, size| {
        let mut vandal = Vandal::new(&plan)?;
        for call in vandal.world.calls.clone().iter().skip(worker).step_by(size) {
            vandal.spoil(call)?;
        }
        let skipped = vandal.skipped();
        Ok((vandal.tally, skipped))
    })? {
        tally.add(theirs.0);
        skipped = theirs.1;
    }
    let mut rows = tally.rows();
    rows.extend(skipped.into_iter().map(|(what, why)| Row::skipped(what, why)));
    Ok(rows)
}

/// How much of everything.
struct Plan {
    is_short: bool,
    /// Kilobytes that are left on the disk.
    free: Vec<usize>,
    /// Units of 512 bytes that a file may have.
    limits: Vec<usize>,
    /// How long others keep the database to themselves.
    hold: Duration,
    /// In how many places the WAL is cut.
    cuts: usize,
}

impl Plan {
    fn new(dose: &Dose) -> Plan {
        let free = if dose.short { vec![0, 24] } else { (0..=40).map(|it| 4 * it).collect() };
        let limits = if dose.short { vec![16] } else { vec![0, 1, 8, 16, 64, 128, 256, 512] };
        let hold = Duration::from_millis(dose.of(2_000, 50) as u64);
        Plan { is_short: dose.short, free, limits, hold, cuts: dose.of(20, 1) }
    }
}

/// Somebody with a project of their own who spoils the world around it.
struct Vandal<'a> {
    plan: &'a Plan,
    world: World,
    shim: Option<Shim>,
    mounts: bool,
    tally: Tally,
}

impl<'a> Vandal<'a> {
    fn new(plan: &'a Plan) -> Result<Vandal<'a>> {
        let world = World::new();
        let shim = Shim::compile(world.project.base())?;
        let can_mount = Command::new("unshare").args(["-m", "true"]).output();
        let mounts = cfg!(target_os = "linux") && can_mount.is_ok_and(|it| it.status.success());
        Ok(Vandal { plan, world, shim, mounts, tally: Tally::default() })
    }

    fn skipped(&self) -> Vec<(&'static str, &'static str)> {
        let shim =
            (self.shim.is_none(), "a clock that jumps", "no LD_PRELOAD or no C compiler here");
        let mounts = (!self.mounts, "a full and a read-only disk", "nothing can be mounted here");
        [shim, mounts].into_iter().filter(|it| it.0).map(|it| (it.1, it.2)).collect()
    }

    /// Makes a call in every kind of trouble.
    fn spoil(&mut self, call: &Call) -> Result<()> {
        let expected = self.world.expect(call);
        self.environment(call, &expected);
        if self.mounts {
            self.disks(call, &expected)?;
        }
        for limit in &self.plan.limits {
            let script = format!(r#"ulimit -f {limit}; exec "$@""#);
            let command = self.within(&["sh", "-c", &script, "sh"], call);
            self.with(call, &expected, &format!("files of {limit} blocks"), command);
        }
        if call.start >= Start::Used {
            self.locks(call, &expected)?;
            self.empty_database(call);
            self.half_of_the_wal(call)?;
        }
        Ok(())
    }

    fn environment(&mut self, call: &Call, expected: &Expected) {
        let mut homeless = self.world.command(call);
        homeless.env_remove("HOME");
        self.with(call, expected, "no HOME", homeless);
        let mut nowhere = self.world.command(call);
        nowhere.env("TMPDIR", self.world.project.base().join("nowhere"));
        self.with(call, expected, "no TMPDIR", nowhere);
        let gone = self.within(&["sh", "-c", GONE, "sh"], call);
        self.with(call, expected, "no current directory", gone);
        let clocks = &[(3_600, 1), (3_600, 3), (-3_600, 0), (3_600, 0)];
        // Between a run and those whom its agent calls, time matters.
        let clocks = if call.has_agent() { clocks } else { self.some(clocks) };
        for &(seconds, looks) in clocks {
            if let Some(shim) = &self.shim {
                let mut command = self.world.command(call);
                shim.jump(&mut command, seconds, looks);
                let name = format!("a clock that jumps {seconds} s after {looks} looks");
                self.with(call, expected, &name, command);
            }
        }
        let (root, base) = (self.world.project.root(), self.world.project.base());
        let (git, aside) = (root.join(".git"), base.join("git-aside"));
        fs::rename(&git, &aside).unwrap();
        // What an agent would be told then says nothing of a working tree.
        let is_shown = call.arguments.iter().any(|it| it == "--dry-run");
        let untold = is_shown.then(|| self.world.expect(call));
        let told = untold.as_ref().unwrap_or(expected);
        self.with(call, told, "no repository", self.world.command(call));
        fs::rename(&aside, &git).unwrap();
        fs::write(git.join("index.lock"), "").unwrap();
        self.with(call, expected, "a locked repository", self.world.command(call));
        // After a session a run removes it itself: a git that was killed may have left it.
        let _ = fs::remove_file(git.join("index.lock"));
    }

    fn disks(&mut self, call: &Call, expected: &Expected) -> Result<()> {
        let (root, base) = (self.world.project.root().to_owned(), self.world.project.base());
        let hold = base.join("hold");
        let paths = [&root, &hold].map(|it| it.display().to_string());
        let unshared = ["unshare", "-m", "sh", "-c"];
        for free in self.some(&self.plan.free) {
            self.world.prepare(call);
            fs::create_dir_all(&hold)?;
            self.world.files(call.start).put(&hold);
            let free = free.to_string();
            let arguments = [FULL_DISK, "sh", &paths[0], &paths[1], &free];
            let command = self.within(&[&unshared[..], &arguments].concat(), call);
            let outcome = self.world.run(call, command);
            Files::of(&hold).put(&root);
            self.judge(call, expected, &format!("{free} KB left"), outcome);
        }
        let read_only = [&unshared[..], &[READ_ONLY, "sh", &paths[0]]].concat();
        let command = self.within(&read_only, call);
        self.with(call, expected, "a read-only disk", command);
        if call.has_agent() {
            let full = [&unshared[..], &[FULL_TEMPORARY, "sh"]].concat();
            let command = self.within(&full, call);
            self.with(call, expected, "a full TMPDIR", command);
        }
        Ok(())
    }

    /// Others keep the database to themselves, again and again.
    fn locks(&mut self, call: &Call, expected: &Expected) -> Result<()> {
        for mode in self.some(&["normal", "exclusive"]) {
            self.world.prepare(call);
            let (database, hold) = (self.world.project.database(), self.plan.hold);
            let (tell_held, held) = mpsc::channel();
            let (done, until_done) = mpsc::channel::<()>();
            let holder = thread::spawn(move || -> rusqlite::Result<()> {
                let began = Instant::now();
                while began.elapsed() < hold * 2 {
                    let connection = Connection::open(&database)?;
                    connection.busy_timeout(Duration::from_secs(30))?;
                    connection.pragma_update(None, "locking_mode", mode)?;
                    connection.execute_batch("begin exclusive; select * from tasks limit 1")?;
                    let _ = tell_held.send(());
                    // As long as that: it is about how long others wait.
                    thread::sleep(hold / 2);
                    connection.execute_batch("commit")?;
                    drop(connection);
                    if until_done.try_recv() == Err(mpsc::TryRecvError::Disconnected) {
                        break;
                    }
                    thread::yield_now();
                }
                Ok(())
            });
            held.recv()?;
            let outcome = self.world.run(call, self.world.command(call));
            drop(done);
            holder.join().expect("it does not panic")?;
            self.judge(call, expected, &format!("others hold the database, {mode}"), outcome);
        }
        Ok(())
    }

    /// A file without anything in it is as good as none.
    fn empty_database(&mut self, call: &Call) {
        let files = self.world.files(call.start).with(WAL, None);
        files.with(DATABASE, None).put(self.world.project.root());
        let expected = self.world.expect_now(call);
        files.with(DATABASE, Some(b"")).put(self.world.project.root());
        let outcome = self.world.run(call, self.world.command(call));
        self.judge(call, &expected, "an empty database", outcome);
    }

    /// What a WAL that was cut holds is what SQLite finds in it, and nothing else.
    fn half_of_the_wal(&mut self, call: &Call) -> Result<()> {
        let brimful = self.world.files(Start::Brimful).clone();
        let wal = brimful.bytes(WAL).expect("it is brimful").to_vec();
        for cut in 1..=self.plan.cuts {
            let length = wal.len() * cut / (self.plan.cuts + 1) + cut;
            let files =
                brimful.with(WAL, Some(&wal[..length])).with(".ralph/progress.db-shm", None);
            files.put(self.world.project.root());
            settle(&self.world.project);
            let expected = self.world.expect_now(call);
            files.put(self.world.project.root());
            let outcome = self.world.run(call, self.world.command(call));
            self.judge(call, &expected, &format!("{length} bytes of the WAL"), outcome);
        }
        Ok(())
    }

    /// All of these, or in the short form one after the other.
    fn some<'b, T>(&self, all: &'b [T]) -> &'b [T] {
        let one = self.tally.calls % all.len();
        if self.plan.is_short { &all[one..=one] } else { all }
    }

    /// The call, by another program that comes before it.
    fn within(&self, before: &[&str], call: &Call) -> Command {
        let inner = self.world.command(call);
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(RALPH).args(inner.get_args()).env_clear();
        command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.current_dir(self.world.project.root());
        command
    }

    fn with(&mut self, call: &Call, expected: &Expected, name: &str, command: Command) {
        self.world.prepare(call);
        let outcome = self.world.run(call, command);
        self.judge(call, expected, name, outcome);
    }

    fn judge(
        &mut self,
        call: &Call,
        expected: &Expected,
        name: &str,
        outcome: Result<Ended, String>,
    ) {
        self.world.judge(call, expected, &Fault::new(name), outcome, &mut self.tally);
    }
}
