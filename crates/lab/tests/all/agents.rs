//! Generators on separate machines: coordinator, store and two agents, each in a network namespace,
//! joined by a bridge. Cut cables and dead machines have the same effects as on a real network.
//!
//! All networks are inside a user namespace, so that they reach no other process, and no root is
//! needed if the system permits user namespaces; if it does not, the tests are skipped with a
//! message. The networks end with their processes.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use lab::results::{Directory, End, Line, Outcome};

/// The machines besides that of the coordinator, with their addresses. The last two are the agents.
const MACHINES: [(&str, &str); 3] =
    [("store", "10.9.0.2"), ("one", "10.9.0.3"), ("two", "10.9.0.4")];

/// Creates the networks, and keeps them until its standard input is closed.
const SETUP: &str = r#"
set -e
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add bridge type bridge
ip address add 10.9.0.1/24 dev bridge
ip link set bridge up
for machine in "$@"; do
  name=${machine%=*}
  ip netns add "$name"
  ip link add "to-$name" type veth peer name cable netns "$name"
  ip link set "to-$name" master bridge up
  ip -n "$name" address add "${machine#*=}/24" dev cable
  ip -n "$name" link set cable up
  ip -n "$name" link set lo up
done
echo ready
exec cat
"#;

/// Operations of a run that ends by itself, after 4 s.
const FEW: u64 = 2_000;

/// Operations of a run that is cut off: it would take an hour, so that it is always cut off before
/// its end.
const ENDLESS: u64 = 1_800_003;

/// Time between two looks at whether something has happened.
const LOOK: Duration = Duration::from_millis(20);

/// A process that is killed when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts it, and waits for a line of its output with `word` in it.
    fn start(command: &mut Command, word: &str) -> Running {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut running = Running(child.unwrap_or_else(|error| panic!("{command:?}: {error}")));
        let mut output = BufReader::new(running.0.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains(word) {
            line.clear();
            let read = output.read_line(&mut line).unwrap();
            assert!(
                read > 0,
                "{command:?} ended. This test needs iproute2, util-linux and redis (scripts/test-deps.sh)"
            );
        }
        // The rest of its output is read, so that it is never blocked.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        running
    }
}

/// The machines.
struct Network {
    keeper: Running,
    agents: Vec<Option<Running>>,
    /// The file with the secret of the agents.
    secret: tempfile::NamedTempFile,
    _store: Option<Running>,
}

/// A command in namespaces of its own.
fn apart(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--net", "--mount", program]);
    command
}

impl Network {
    /// `None` if the system permits no namespaces.
    fn new() -> Option<Network> {
        if !apart("true").status().is_ok_and(|status| status.success()) {
            eprintln!("skipped: networks need root or a system that allows user namespaces");
            return None;
        }
        let mut keeper = apart("sh");
        keeper.args(["-c", SETUP, "sh"]);
        keeper.args(MACHINES.map(|(name, address)| format!("{name}={address}")));
        let keeper = Running::start(&mut keeper, "ready");
        let secret = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(secret.path(), "open sesame\n").unwrap();
        let mut network = Network { keeper, agents: vec![None, None], secret, _store: None };
        let mut store = network.on("store", "redis-server");
        store.args(["--bind", MACHINES[0].1, "--protected-mode", "no", "--save", ""]);
        network._store = Some(Running::start(&mut store, "Ready to accept connections"));
        network.start_agent(0);
        network.start_agent(1);
        Some(network)
    }

    /// A command on the machine of the coordinator.
    fn here(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.keeper.0.id().to_string()]);
        command.args(["--user", "--net", "--mount", "--preserve-credentials", program]);
        command.stdin(Stdio::null());
        command
    }

    /// A command on another machine.
    fn on(&self, machine: &str, program: &str) -> Command {
        let mut command = self.here("ip");
        command.args(["netns", "exec", machine, program]);
        command
    }

    fn start_agent(&mut self, number: usize) {
        let (name, address) = MACHINES[number + 1];
        let mut agent = self.on(name, env!("CARGO_BIN_EXE_loginson-lab"));
        agent.args(["agent", "--listen", &format!("{address}:9614"), "--secret-file"]);
        agent.arg(self.secret.path());
        self.agents[number] = Some(Running::start(&mut agent, address));
    }

    /// Runs so many reads of YCSB at 500 a second, shared by the agents.
    fn run(&self, out: &Path, operations: u64, repetitions: &str) -> Command {
        let mut run = self.here(env!("CARGO_BIN_EXE_loginson-lab"));
        // Another mount namespace has another working directory.
        let reads = std::env::current_dir().unwrap().join("workloads/ycsb/c.properties");
        run.arg("run").arg(reads).args(["--stores", "redis"]);
        run.args(["-p", "recordcount=1000", "-p", &format!("operationcount={operations}")]);
        run.args(["-p", "threadcount=4", "-p", "target=500", "--repetitions", repetitions]);
        run.args(["--endpoint", &format!("redis={}:6379", MACHINES[0].1)]);
        run.args(["--agents", "10.9.0.3:9614,10.9.0.4:9614", "--secret-file"]);
        run.arg(self.secret.path()).arg("--out").arg(out);
        run.stdout(Stdio::null()).stderr(Stdio::piped());
        run
    }

    /// Repeats the failed trials of a run of [`ENDLESS`] operations, with [`FEW`].
    fn retry_failed(&self, out: &Path) -> Output {
        let file = out.join("run.json");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(&ENDLESS.to_string(), &FEW.to_string())).unwrap();
        let mut resume = self.here(env!("CARGO_BIN_EXE_loginson-lab"));
        resume.args(["resume", "--retry-failed"]).arg(out).output().unwrap()
    }

    /// Bytes received on the network interface of a machine.
    fn received(&self, machine: &str) -> u64 {
        let read = self.on(machine, "cat").arg("/sys/class/net/cable/statistics/rx_bytes").output();
        String::from_utf8(read.unwrap().stdout).unwrap().trim().parse().unwrap()
    }

    /// Waits until the first repetition runs and machine `two` has received rows of it.
    fn wait_for_rows(&self, out: &Path, run: &mut Child) {
        let begun = |file: std::fs::DirEntry| {
            let name = file.file_name().into_string().unwrap();
            name.contains("redis") && name.ends_with("r01.jsonl.part")
        };
        let mut wait_for = |is_so: &dyn Fn() -> bool| {
            while !is_so() {
                assert!(run.try_wait().unwrap().is_none(), "the run ended before");
                std::thread::sleep(LOOK);
            }
        };
        wait_for(&|| {
            std::fs::read_dir(out.join("trials")).is_ok_and(|all| all.flatten().any(begun))
        });
        let before = self.received("two");
        // A row has 1,000 bytes: several hundred of them are more than a second.
        wait_for(&|| self.received("two") > before + 400_000);
    }
}

/// The lines of each repetition on redis, and how it ended.
fn repetitions(out: &Path) -> Vec<(u64, End)> {
    let (directory, _) = Directory::open(out).unwrap();
    let names = directory.trials().unwrap().into_iter();
    let names = names.filter(|name| name.contains("redis") && !name.ends_with("-load"));
    let read = |name: String| {
        let lines = directory.read(&name).unwrap();
        let count = |line: &Line| if let Line::Second(second) = line { second.count } else { 0 };
        let count = lines.iter().map(count).sum();
        let Some(Line::End(end)) = lines.into_iter().last() else { panic!("{name} has no end") };
        (count, end)
    };
    names.map(read).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn agents_on_other_machines_share_trials_and_one_that_dies_fails_its_own() {
    let Some(mut network) = Network::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("whole");
    let before = [network.received("one"), network.received("two")];
    let ran = network.run(&out, FEW, "2").output().unwrap();
    assert!(ran.status.success(), "{}", said(&ran));
    for (count, end) in repetitions(&out) {
        assert_eq!((count, &end.outcome), (FEW, &Outcome::Completed));
    }
    for (machine, before) in ["one", "two"].iter().zip(before) {
        // Half of the rows of two repetitions, each of which may have been disturbed and made
        // again.
        let received = network.received(machine) - before;
        assert!((2_000_000..8_000_000).contains(&received), "{machine} received {received}");
    }
    assert!(out.join("report.html").exists());

    let out = folder.path().join("lost");
    let mut run = network.run(&out, ENDLESS, "2").spawn().unwrap();
    network.wait_for_rows(&out, &mut run);
    network.agents[1] = None;
    let ended = run.wait_with_output().unwrap();
    let text = said(&ended);
    assert!(!ended.status.success(), "{text}");
    for expected in [
        "agent 10.9.0.4:9614 was lost",
        "loginson-lab agent --listen 10.9.0.4:9614",
        "resume --retry-failed",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    // The measurements until then are kept, with the reason why they do not count.
    let kept = repetitions(&out);
    let failed = |end: &End| matches!(end.outcome, Outcome::Failed { .. });
    assert!(kept.len() == 2 && kept.iter().all(|(_, end)| failed(end)), "{kept:?}");
    assert!(kept[0].0 > 0 && kept[0].0 < ENDLESS && kept[1].0 == 0, "{kept:?}");

    network.start_agent(1);
    let resumed = network.retry_failed(&out);
    assert!(resumed.status.success(), "{}", said(&resumed));
    for (count, end) in repetitions(&out) {
        assert_eq!((count, end.outcome), (FEW, Outcome::Completed));
    }
}

#[test]
fn an_agent_whose_cable_is_pulled_is_lost_and_comes_back_by_itself() {
    let Some(network) = Network::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut run = network.run(&out, ENDLESS, "1").spawn().unwrap();
    network.wait_for_rows(&out, &mut run);
    let cable = |state: &str| {
        let set = network.here("ip").args(["link", "set", "to-two", state]).status().unwrap();
        assert!(set.success());
    };
    cable("down");
    let ended = run.wait_with_output().unwrap();
    let text = said(&ended);
    assert!(!ended.status.success(), "{text}");
    assert!(text.contains("agent 10.9.0.4:9614 was lost: it said nothing for 15 s"), "{text}");
    let kept = repetitions(&out);
    assert!(kept[0].0 > 0 && kept[0].0 < ENDLESS, "{kept:?}");
    cable("up");
    // The agent noticed the loss of its coordinator, and accepts the next trial.
    let resumed = network.retry_failed(&out);
    assert!(resumed.status.success(), "{}", said(&resumed));
    assert_eq!(repetitions(&out)[0].0, FEW);
}

#[test]
fn an_agent_that_others_reach_needs_a_secret_and_one_of_a_run_ends_with_it() {
    let lab = || Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    let open = lab().args(["agent", "--listen", "0.0.0.0:0"]).output().unwrap();
    assert!(!open.status.success() && said(&open).contains("--secret-file"), "{}", said(&open));
    let mut agent = lab();
    agent.args(["agent", "--until-input-ends", "--listen", "127.0.0.1:0"]);
    let mut agent = agent.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    drop(agent.stdin.take());
    // It ends by itself, or this waits for ever.
    agent.wait().unwrap();
}
