#!/usr/bin/env python3
"""Installs the packages as a stranger does: `make test-packages`; LOGINSON_BIN names the binary. Needs root and debootstrap.

- Packages are made twice, and must be equal byte for byte.
- The Debian package is installed in a fresh Debian, its server started as the unit says and as the unit's user; the first
  line goes in and is found. The settings that an administrator changed survive an upgrade. After purge, every file is as
  it was before.
- The RPM package has the same files, and its digests are right.
- The image's digests are right; its program runs as the image's user with nothing but the files of the image, writes to
  its data directory alone, and passes the image's own health check.
- The binary names its crates in the section .dep-v0, the same as the SBOM.
- SHA256SUMS is signed with a key made for the test: the signature holds for it alone, and for the packages' purpose alone.
- With LOGINSON_STATIC_BIN, the static binary runs in a root that has no library.
- `systemd-analyze security` rates both units below 2.

Left out: systemd itself, which a chroot does not have. What it would be told is received by this script in its place.
"""

import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUITE = "bookworm"
# A server that does nothing for so long has failed.
STUCK_S = 120


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def output(*command, **options):
    return run(*command, stdout=subprocess.PIPE, text=True, **options).stdout


def check(holds, message):
    if not holds:
        sys.exit(f"test-packages: {message}")


def fresh_root(cache):
    """A copy of a minimal Debian, which is fetched once."""
    kept = cache / f"debian-{SUITE}.tar"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            run("debootstrap", "--variant=minbase", SUITE, folder + "/root", stdout=subprocess.DEVNULL)
            run("tar", "-C", folder + "/root", "-cf", folder + "/part", ".")
            os.rename(folder + "/part", kept)
    return kept


def snapshot(root):
    """Every file of a root with its mode, owner and content; without what any package changes."""
    changing = re.compile(r"^(var/log/|var/lib/dpkg/|var/cache/|run/|proc|sys|dev|etc/(passwd|group|shadow|gshadow)-)")
    found = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder, name)
            place = str(path.relative_to(root))
            if changing.match(place):
                continue
            about = path.lstat()
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                content = None
            found[place] = (about.st_mode, about.st_uid, about.st_gid, content)
    return found


class Service:
    """A program that tells a manager about itself, started as root would start it for a user."""

    def __init__(self, root, command, user, environment, folder="/"):
        self.path = pathlib.Path(root, "run/notify")
        self.path.parent.mkdir(exist_ok=True)
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.path.chmod(0o666)
        self.socket.settimeout(STUCK_S)
        uid, gid = user
        environment = {**environment, "NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "2000000", "PATH": "/usr/bin:/bin"}

        def enter():
            os.chroot(root)
            os.chdir(folder)
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)

        self.process = subprocess.Popen(command, env=environment, preexec_fn=enter)

    def wait_for(self, word):
        while word not in self.socket.recv(4096).decode().split("\n"):
            pass

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.wait_for("STOPPING=1")
        check(self.process.wait(STUCK_S) == 0, "the server did not end well")
        self.socket.close()
        self.path.unlink()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def ask(address, path, data=None):
    with urllib.request.urlopen(f"http://{address}{path}", data, timeout=STUCK_S) as answer:
        return answer.read().decode()


def first_line(address):
    ask(address, "/insert/lines", b"the first line of many\n")
    found = ask(address, "/select/logsql/query", b"query=%22the+first+line%22")
    check("the first line of many" in found, f"the first line is not found: {found!r}")


def exec_start(unit):
    [command] = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.M)
    return shlex.split(command)


def debian(package, kept, folder):
    root = folder / "debian"
    root.mkdir()
    run("tar", "-C", root, "-xf", kept)
    inside = ["chroot", root]
    before = snapshot(root)
    shutil.copy(package, root / "tmp/package.deb")
    begin = time.monotonic()
    # Whatever the package depends on must be in a minimal Debian.
    run(*inside, "dpkg", "-i", "/tmp/package.deb", stdout=subprocess.DEVNULL)
    settings = root / "etc/loginson/loginson.toml"
    check(settings.stat().st_mode & 0o777 == 0o640, "others can read the settings")
    data = root / "var/lib/loginson"
    user = (data.stat().st_uid, data.stat().st_gid)
    check(user[0] != 0 and data.stat().st_mode & 0o777 == 0o700, "the data directory is not the user's alone")
    run(*inside, "loginson", "check-config", stdout=subprocess.DEVNULL)
    port = free_port()
    address = f"127.0.0.1:{port}"
    with_ports = {"LOGINSON_HTTP_LISTEN": address, "LOGINSON_SYSLOG_UDP_LISTEN": "off", "LOGINSON_SYSLOG_TCP_LISTEN": "off"}
    unit = root / "usr/lib/systemd/system/loginson.service"
    with Service(root, exec_start(unit), user, with_ports) as server:
        server.wait_for("READY=1")
        first_line(address)
        print(f"from dpkg -i to the first line found: {time.monotonic() - begin:.1f} s")
        server.wait_for("WATCHDOG=1")
        for words in (["status"], ["status", "--ready"], ["top"], ["reload"]):
            run(*inside, "loginson", *words, "--server", f"http://{address}", stdout=subprocess.DEVNULL)
        server.process.send_signal(signal.SIGHUP)
        server.wait_for("RELOADING=1")
        server.wait_for("READY=1")
        server.stop()
    # An administrator's settings survive an upgrade, and so do the lines.
    settings.write_text(settings.read_text().replace('age = "30d"', 'age = "31d"'))
    run(*inside, "dpkg", "-i", "--force-confold", "/tmp/package.deb", stdout=subprocess.DEVNULL)
    check("31d" in settings.read_text(), "an upgrade overwrote the settings")
    with Service(root, exec_start(unit), user, with_ports) as server:
        server.wait_for("READY=1")
        check("first line" in ask(address, "/select/logsql/query", b"query=first"), "an upgrade lost a line")
        server.stop()
    run(*inside, "dpkg", "-r", "loginson", stdout=subprocess.DEVNULL)
    check(any(data.iterdir()), "removing the package deleted lines")
    run(*inside, "dpkg", "--purge", "loginson", stdout=subprocess.DEVNULL)
    (root / "tmp/package.deb").unlink()
    after = snapshot(root)
    left = sorted(place for place in before.keys() | after.keys() if before.get(place) != after.get(place))
    # Directories whose names alone were looked up are not listed: they did not change.
    check(not left, f"purge left {left}")
    print("Debian: installed, ran, upgraded, purged; nothing is left")


def free_port():
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def redhat(package, debian_package):
    if not shutil.which("rpm"):
        sys.exit("test-packages: rpm is needed to read RPM packages: apt-get install rpm")
    database = ["--dbpath", "/nonexistent"]
    run("rpm", *database, "-K", "--nosignature", package, stdout=subprocess.DEVNULL)
    files = set(output("rpm", *database, "-qpl", package).split())
    listing = f"dpkg-deb --fsys-tarfile {shlex.quote(str(debian_package))} | tar -t"
    lines = output("sh", "-c", listing).split("\n")
    of_debian = {"/" + line.removeprefix("./").lstrip("/") for line in lines if line and not line.endswith("/")}
    of_debian = {file.replace("/zsh/vendor-completions/", "/zsh/site-functions/") for file in of_debian}
    check(files >= of_debian, f"the RPM package lacks {sorted(of_debian - files)}")
    settings = set(output("rpm", *database, "-qpc", package).split())
    check(settings == {"/etc/loginson/loginson.toml", "/etc/loginson/collector.toml"}, f"settings: {settings}")
    scripts = output("rpm", *database, "-qp", "--scripts", package)
    check(all(word in scripts for word in ("postinstall", "preuninstall", "postuninstall")), "scripts are missing")
    print(f"RPM: {len(files)} files, digests and scripts are right")


def image(package, folder):
    place = folder / "image"
    with tarfile.open(package) as archive:
        archive.extractall(place, filter="data")
    blob = lambda digest: place / "blobs/sha256" / digest.removeprefix("sha256:")
    for file in (place / "blobs/sha256").iterdir():
        check(hashlib.sha256(file.read_bytes()).hexdigest() == file.name, f"wrong digest of {file.name}")
    index = json.loads((place / "index.json").read_text())
    manifest = json.loads(blob(index["manifests"][0]["digest"]).read_text())
    config = json.loads(blob(manifest["config"]["digest"]).read_text())
    root = folder / "image-root"
    with tarfile.open(blob(manifest["layers"][0]["digest"])) as layer:
        layer.extractall(root, filter="tar", numeric_owner=True)
    settings = config["config"]
    uid, gid = map(int, settings["User"].split(":"))
    check(uid != 0, "the image runs as root")
    environment = dict(pair.split("=", 1) for pair in settings["Env"])
    port = free_port()
    environment |= {
        "LOGINSON_HTTP_LISTEN": f"127.0.0.1:{port}",
        "LOGINSON_SYSLOG_UDP_LISTEN": "off",
        "LOGINSON_SYSLOG_TCP_LISTEN": "off",
        "LOGINSON_SERVER": f"http://127.0.0.1:{port}",
    }
    before = snapshot(root)
    command = settings["Entrypoint"] + settings["Cmd"]
    with Service(root, command, (uid, gid), environment, settings["WorkingDir"]) as server:
        server.wait_for("READY=1")
        first_line(f"127.0.0.1:{port}")
        healthy = settings["Healthcheck"]["Test"][1:]
        run("chroot", f"--userspec={uid}:{gid}", root, *healthy, env=environment, stdout=subprocess.DEVNULL)
        server.stop()
    written = [name for name, about in snapshot(root).items() if before.get(name) != about]
    elsewhere = [name for name in written if not name.startswith("var/lib/loginson") and name != "run"]
    check(not elsewhere, f"the server wrote outside its data directory: {elsewhere}")
    print("image: digests are right, it runs as its user, is healthy, writes to its data directory alone")


def crates(package, folder):
    """The list of crates in the binary is that of the SBOM."""
    run("dpkg-deb", "-x", package, folder / "files")
    section = folder / "dep-v0"
    run("objcopy", "--dump-section", f".dep-v0={section}", folder / "files/usr/bin/loginson", "/dev/null")
    listed = json.loads(zlib.decompress(section.read_bytes()))["packages"]
    [bom] = package.parent.glob("*.cdx.json")
    bom = json.loads(bom.read_text())
    named = {(one["name"], one["version"]) for one in [*bom["components"], bom["metadata"]["component"]]}
    check({(one["name"], one["version"]) for one in listed} == named, "the binary and the SBOM name different crates")
    check([one["name"] for one in listed if one.get("root")] == ["loginson"], "the root of the crates is wrong")
    check(all(number < len(listed) for one in listed for number in one.get("dependencies", [])), "a crate is missing")
    print(f"crates: {len(listed)} are named in the binary and in the SBOM")


def signature(out, key, folder):
    """The signature holds for the sums of the packages, and for nothing else."""
    sums, signers = out / "SHA256SUMS", folder / "signers"
    kind, public = (key.with_suffix(".pub")).read_text().split()[:2]
    signers.write_text(f"loginson {kind} {public}\n")

    def holds(text, purpose="loginson-packages"):
        verify = ["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "loginson", "-n", purpose, "-s", out / "SHA256SUMS.sig"]
        return subprocess.run(verify, input=text, capture_output=True).returncode == 0

    text = sums.read_bytes()
    check(holds(text), "the signature does not hold")
    check(not holds(text.replace(text[:1], b"x", 1)) and not holds(text, "file"), "the signature holds for something else")
    run("sha256sum", "--check", "--quiet", sums, cwd=out)
    print("signature: it holds for SHA256SUMS alone")


def static(archive, folder):
    """The static binary needs nothing of the system."""
    root = folder / "static"
    with tarfile.open(archive) as files:
        files.extractall(root, filter="data")
    [program] = root.glob("*/bin/loginson")
    data = root / "data"
    for place in (root, data):
        place.mkdir(exist_ok=True)
        os.chown(place, 65532, 65532)
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "LOGINSON_HTTP_LISTEN": address, "LOGINSON_DATA_DIR": "/data",
        "LOGINSON_SYSLOG_UDP_LISTEN": "off", "LOGINSON_SYSLOG_TCP_LISTEN": "off",
    }
    (root / "run").mkdir()
    with Service(root, ["/" + str(program.relative_to(root)), "serve"], (65532, 65532), environment) as server:
        server.wait_for("READY=1")
        first_line(address)
        server.stop()
    print("static binary: it runs without any library")


def units():
    if not shutil.which("systemd-analyze"):
        print("no systemd-analyze here: the units are not rated")
        return
    for unit in sorted((ROOT / "packaging/systemd").iterdir()):
        rated = output("systemd-analyze", "security", "--offline=true", "--no-pager", unit)
        exposure = float(re.search(r"exposure level for \S+: ([0-9.]+)", rated).group(1))
        check(exposure < 2, f"{unit.name} is exposed: {exposure}; {rated}")
        print(f"{unit.name}: exposure {exposure}")


def main():
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    check(os.geteuid() == 0, "run it as root: packages are installed in a root of their own")
    check(shutil.which("debootstrap"), "debootstrap is needed for a fresh Debian: apt-get install debootstrap")
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "loginson")
    units()
    with tempfile.TemporaryDirectory(prefix="loginson-packages-") as folder:
        folder = pathlib.Path(folder)
        folder.chmod(0o755)
        made, key = [], folder / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        signed = {**os.environ, "LOGINSON_SIGNING_KEY": str(key)}
        for name in ("once", "twice"):
            run(sys.executable, ROOT / "scripts/packages.py", "--fast", "--out", folder / name, stdout=subprocess.DEVNULL, env=signed)
            made.append("".join((folder / name / file).read_text() for file in ("SHA256SUMS", "SHA256SUMS.sig")))
        check(made[0] == made[1], f"two builds differ:\n{made[0]}\n{made[1]}")
        shutil.rmtree(folder / "twice")
        print("two builds are equal:\n" + made[0], end="")
        signature(folder / "once", key, folder)
        for archive in (folder / "once").glob("*-static.tar.gz"):
            static(archive, folder)
        [deb], [rpm], [oci] = ([*(folder / "once").glob(what)] for what in ("*.deb", "*.rpm", "*.oci.tar"))
        crates(deb, folder)
        debian(deb, fresh_root(cache), folder)
        redhat(rpm, deb)
        image(oci, folder)


if __name__ == "__main__":
    main()
