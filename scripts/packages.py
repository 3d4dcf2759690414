#!/usr/bin/env python3
"""Makes the packages: `make packages`, or `LOGINSON_BIN=… scripts/packages.py [--out DIR]`.

Of one binary, a Debian package, an RPM package, an image for containers (OCI, which `docker load`, `podman load` and
`skopeo copy oci-archive:` take), a list of what is in the binary (SBOM, CycloneDX), and SHA256SUMS. All are written by this
script and scripts/package_formats.py, without a daemon and without tools of the systems that they are for. The binary of
each has the same list in its section .dep-v0, which cargo audit, Trivy and other scanners read, as cargo auditable writes
it. With LOGINSON_STATIC_BIN, a binary that needs no library of the system (`make static`), there is an archive of it. With
LOGINSON_SIGNING_KEY, the file of a key of ssh-keygen, SHA256SUMS is signed.

The same sources and binary give the same bytes: all times are SOURCE_DATE_EPOCH, or that of the last commit, and files
are in the order of their names.
"""

import argparse
import datetime
import gzip
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import tomllib
import uuid
import zlib

from package_formats import Tar, debian, glibc_min, rpm

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
NAME = "loginson"
SUMMARY = "a log server: collects logs, keeps every line, summarises them live"
# Names of processors: Linux's and RPM's, Debian's and OCI's.
PROCESSORS = {"x86_64": "amd64", "aarch64": "arm64"}
# Folders of packaging/ with what watches a server: our own alerts, a dashboard, alerts of Prometheus.
WATCHING = ("alerts", "grafana", "prometheus")
# What a signature is made for: another use of the same key cannot be taken for one of packages.
SIGNED_FOR = "loginson-packages"
# The user of the image has no name elsewhere; a volume must belong to it.
IMAGE_USER = 65532


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, **options)


def output(*command, **options):
    return run(*command, capture_output=True, text=True, **options).stdout.strip()


def version():
    return tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def epoch():
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or output("git", "-C", ROOT, "log", "-1", "--format=%ct"))


def packed(data, level=9):
    """Compressed with gzip, the same whenever it is done."""
    return gzip.compress(data, level, mtime=0)


def stage(binary, folder, strip, audited):
    """The files of a package below `folder`; returns them as (place in the package, file, mode, what they are)."""
    folder.mkdir()
    program = folder / NAME
    shutil.copyfile(binary, program)
    program.chmod(0o755)
    if strip:
        run("strip", program)
    section = folder / "dep-v0"
    section.write_bytes(audited)
    run("objcopy", "--remove-section", ".dep-v0", "--add-section", f".dep-v0={section}", program)
    pages = folder / "pages"
    run(program, "help-pages", pages)
    files = [(f"/usr/bin/{NAME}", program, 0o755, "program")]
    for page in sorted((pages / "man1").iterdir()):
        small = page.with_name(page.name + ".gz")
        small.write_bytes(packed(page.read_bytes()))
        files.append((f"/usr/share/man/man1/{small.name}", small, 0o644, "page"))
    completions = [
        (f"/usr/share/bash-completion/completions/{NAME}", "loginson.bash"),
        ("/usr/share/zsh/site-functions/_loginson", "_loginson"),
        ("/usr/share/fish/vendor_completions.d/loginson.fish", "loginson.fish"),
    ]
    files += [(place, pages / name, 0o644, "completion") for place, name in completions]
    for unit in sorted((PACKAGING / "systemd").iterdir()):
        files.append((f"/usr/lib/systemd/system/{unit.name}", unit, 0o644, "unit"))
    for setting in sorted((PACKAGING / "config").iterdir()):
        files.append((f"/etc/{NAME}/{setting.name}", setting, 0o640, "setting"))
    for kind in WATCHING:
        for file in sorted((PACKAGING / kind).iterdir()):
            files.append((f"/usr/share/{NAME}/{kind}/{file.name}", file, 0o644, "data"))
    for file in sorted(file for file in (PACKAGING / "helm").rglob("*") if file.is_file()):
        files.append((f"/usr/share/{NAME}/{file.relative_to(PACKAGING)}", file, 0o644, "data"))
    documents = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    for document in documents:
        files.append((f"/usr/share/doc/{NAME}/{document.name}", document, 0o644, "document"))
    files.append((f"/usr/share/doc/{NAME}/copyright", ROOT / "LICENSE", 0o644, "document"))
    return files


def system_packages(files, out, time_s, preset):
    """The Debian and the RPM package."""
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    scripts = {script.name: script.read_bytes() for script in (PACKAGING / "scripts").iterdir()}
    contents = [(place, file.read_bytes(), mode, kind) for place, file, mode, kind in files]
    glibc = glibc_min(contents[0][1])
    debian_arch, rpm_arch = PROCESSORS[platform.machine()], platform.machine()
    shared = pathlib.PurePosixPath("/usr/share", NAME)
    places = [pathlib.PurePosixPath(place) for place, *_ in contents]
    own = sorted({str(folder) for place in places for folder in place.parents if folder.is_relative_to(shared)})
    about = {
        "name": NAME,
        "version": version(),
        "release": "1",
        "maintainer": "Loginson <loginson@localhost>",
        "summary": SUMMARY,
        "description": SUMMARY,
        "license": package["license"],
        "folders": [f"/etc/{NAME}", f"/usr/share/doc/{NAME}", *own],
    }
    needs = {
        "debian": [*([f"libc6 (>= {glibc})", "libgcc-s1"] if glibc else []), "passwd"],
        "rpm": [*([f"libc.so.6(GLIBC_{glibc})(64bit)", "libgcc_s.so.1()(64bit)"] if glibc else []), "shadow-utils"],
    }
    # Debian's zsh looks for completions of packages elsewhere.
    of_debian = lambda place: place.replace("/zsh/site-functions/", "/zsh/vendor-completions/")
    placed = [(of_debian(place), data, mode, kind) for place, data, mode, kind in contents]
    made = debian({**about, "arch": debian_arch, "depends": needs["debian"]}, placed, scripts, time_s, preset)
    (out / f"{NAME}_{version()}_{debian_arch}.deb").write_bytes(made)
    made = rpm({**about, "arch": rpm_arch, "depends": needs["rpm"]}, contents, scripts, time_s, preset)
    (out / f"{NAME}-{version()}-1.{rpm_arch}.rpm").write_bytes(made)


def libraries(program):
    """The libraries that the program loads, as (place, file)."""
    found = subprocess.run(["ldd", program], capture_output=True, text=True)
    if found.returncode != 0:
        return []  # It is static.
    words = re.findall(r"(?:(\S+) => )?(/\S+) \(0x", found.stdout)
    return sorted({(path, pathlib.Path(path).resolve()) for _, path in words})


def image(files, out, time_s, level):
    """The image: the program, the libraries that it loads, roots of TLS, and an empty data directory."""
    layer = Tar(time_s)
    program = files[0][1]
    passwd = f"root:x:0:0::/:/sbin/nologin\n{NAME}:x:{IMAGE_USER}:{IMAGE_USER}::/var/lib/{NAME}:/sbin/nologin\n"
    contents = [
        ("/etc/passwd", passwd.encode(), 0o644),
        ("/etc/group", f"root:x:0:\n{NAME}:x:{IMAGE_USER}:\n".encode(), 0o644),
        (f"/usr/bin/{NAME}", program.read_bytes(), 0o755),
        (f"/usr/share/doc/{NAME}/copyright", (ROOT / "LICENSE").read_bytes(), 0o644),
    ]
    contents += [(place, file.read_bytes(), 0o755) for place, file in libraries(program)]
    roots = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
    if roots.exists():
        contents.append((str(roots), roots.read_bytes(), 0o644))
    for place, data, mode in sorted(contents):
        layer.file(place, data, mode)
    layer.folder("/tmp", 0o1777)
    layer.folder(f"/var/lib/{NAME}", 0o700, IMAGE_USER)
    plain = layer.done()
    small = packed(plain, level)
    digest = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
    created = utc(time_s)
    processor = PROCESSORS[platform.machine()]
    config = {
        "created": created,
        "architecture": processor,
        "os": "linux",
        "config": {
            "User": f"{IMAGE_USER}:{IMAGE_USER}",
            "Entrypoint": [f"/usr/bin/{NAME}"],
            "Cmd": ["serve"],
            "Env": [
                "PATH=/usr/bin",
                f"LOGINSON_DATA_DIR=/var/lib/{NAME}",
                "LOGINSON_HTTP_LISTEN=0.0.0.0:9514",
                "LOGINSON_SYSLOG_UDP_LISTEN=0.0.0.0:5514",
                "LOGINSON_SYSLOG_TCP_LISTEN=0.0.0.0:5514",
            ],
            "ExposedPorts": {"9514/tcp": {}, "5514/tcp": {}, "5514/udp": {}},
            "Volumes": {f"/var/lib/{NAME}": {}},
            "WorkingDir": f"/var/lib/{NAME}",
            "StopSignal": "SIGTERM",
            # Docker's and Podman's; it needs no credentials.
            "Healthcheck": {
                "Test": ["CMD", f"/usr/bin/{NAME}", "status", "--ready"],
                "Interval": 10_000_000_000,
                "Timeout": 5_000_000_000,
                "StartPeriod": 600_000_000_000,
                "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": NAME,
                "org.opencontainers.image.version": version(),
                "org.opencontainers.image.description": SUMMARY,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [digest(plain)]},
        "history": [{"created": created, "created_by": "scripts/packages.py"}],
    }
    encoded = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    config = encoded(config)
    kinds = "application/vnd.oci.image."
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": kinds + "manifest.v1+json",
            "config": {"mediaType": kinds + "config.v1+json", "digest": digest(config), "size": len(config)},
            "layers": [{"mediaType": kinds + "layer.v1.tar+gzip", "digest": digest(small), "size": len(small)}],
        }
    )
    tag = f"{NAME}:{version()}"
    index = encoded(
        {
            "schemaVersion": 2,
            "mediaType": kinds + "index.v1+json",
            "manifests": [
                {
                    "mediaType": kinds + "manifest.v1+json",
                    "digest": digest(manifest),
                    "size": len(manifest),
                    "platform": {"os": "linux", "architecture": processor},
                    "annotations": {"org.opencontainers.image.ref.name": version(), "io.containerd.image.name": tag},
                }
            ],
        }
    )
    blob = lambda data: "blobs/sha256/" + hashlib.sha256(data).hexdigest()
    # What `docker load` of before version 25 reads.
    docker = encoded([{"Config": blob(config), "RepoTags": [tag], "Layers": [blob(small)]}])
    archive = Tar(time_s)
    parts = [(blob(data), data) for data in (config, manifest, small)]
    parts += [("index.json", index), ("manifest.json", docker), ("oci-layout", b'{"imageLayoutVersion":"1.0.0"}')]
    for place, data in sorted(parts):
        archive.file("/" + place, data)
    (out / f"{NAME}-{version()}-{processor}.oci.tar").write_bytes(archive.done())


def archive(files, out, time_s, level):
    """A binary that runs on any Linux, with its pages, completions, units and documents."""
    if libraries(files[0][1]):
        raise SystemExit(f"{files[0][1]} loads libraries of the system; LOGINSON_STATIC_BIN is what `make static` builds")
    name = f"{NAME}-{version()}-{platform.machine()}-linux-static"
    made = Tar(time_s)
    for place, file, mode, _ in sorted(files, key=lambda one: one[0]):
        made.file(f"/{name}{place.removeprefix('/usr')}", file.read_bytes(), mode)
    (out / f"{name}.tar.gz").write_bytes(packed(made.done(), level))


def utc(time_s):
    return datetime.datetime.fromtimestamp(time_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Crates:
    """What the binary is made of: the crates that it depends on, without those of tests and of building."""

    def __init__(self):
        self.packages, self.nodes, self.root = resolved()
        self.reached, waiting = set(), [self.root]
        while waiting:
            id = waiting.pop()
            if id not in self.reached:
                self.reached.add(id)
                waiting += self.used(id)

    def used(self, id):
        deps = self.nodes[id]["deps"]
        return {dep["pkg"] for dep in deps if any(kind["kind"] is None for kind in dep["dep_kinds"])}

    def audited(self):
        """The list as cargo auditable writes it: JSON, packed with zlib."""
        key = lambda id: (self.packages[id]["name"], self.packages[id]["version"])
        ordered = sorted(self.reached, key=key)
        number = {id: index for index, id in enumerate(ordered)}
        listed = []
        for id in ordered:
            package = self.packages[id]
            one = {"name": package["name"], "version": package["version"]}
            one["source"] = "crates.io" if package["source"] else "local"
            if deps := sorted(number[other] for other in self.used(id)):
                one["dependencies"] = deps
            if id == self.root:
                one["root"] = True
            listed.append(one)
        return zlib.compress(json.dumps({"packages": listed}, separators=(",", ":")).encode(), 9)


def resolved():
    """Packages and nodes of cargo's resolution for this machine's kind, by id, and the id of the program's package."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", ROOT / "Cargo.toml"]
    triple = re.search(r"host: (\S+)", output("rustc", "-vV", cwd=ROOT)).group(1)
    metadata = json.loads(output(*command, "--filter-platform", triple, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    [root] = [id for id, package in packages.items() if package["name"] == NAME]
    return packages, nodes, root


def sbom(crates, out, time_s):
    """The list of crates in the form of CycloneDX."""
    packages, reached, root, used = crates.packages, crates.reached, crates.root, crates.used
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock}
    name = lambda id: f"pkg:cargo/{packages[id]['name']}@{packages[id]['version']}"

    def component(id):
        package = packages[id]
        checksum = checksums.get((package["name"], package["version"]))
        return {
            "type": "application" if id == root else "library",
            "bom-ref": name(id),
            "name": package["name"],
            "version": package["version"],
            "purl": name(id),
            **({"licenses": [{"expression": package["license"].replace("/", " OR ")}]} if package["license"] else {}),
            **({"hashes": [{"alg": "SHA-256", "content": checksum}]} if checksum else {}),
        }

    components = sorted((component(id) for id in reached if id != root), key=lambda one: one["bom-ref"])
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": "urn:uuid:" + str(uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(components, sort_keys=True))),
        "version": 1,
        "metadata": {"timestamp": utc(time_s), "component": component(root)},
        "components": components,
        "dependencies": [
            {"ref": name(id), "dependsOn": sorted({name(other) for other in used(id)})}
            for id in sorted(reached, key=name)
        ],
    }
    (out / f"{NAME}-{version()}.cdx.json").write_text(json.dumps(bom, indent=1, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "packages", help="where the packages go")
    parser.add_argument("--strip", action="store_true", help="without names of functions")
    parser.add_argument("--fast", action="store_true", help="compress less, for tests")
    arguments = parser.parse_args()
    binary = os.environ.get("LOGINSON_BIN")
    if not binary:
        parser.error("LOGINSON_BIN must name the binary; `make packages` does it")
    out, time_s = arguments.out.resolve(), epoch()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        crates = Crates()
        files = stage(pathlib.Path(binary), folder / "system", arguments.strip, crates.audited())
        system_packages(files, out, time_s, 0 if arguments.fast else 6)
        image(files, out, time_s, 1 if arguments.fast else 9)
        if static := os.environ.get("LOGINSON_STATIC_BIN"):
            files = stage(pathlib.Path(static), folder / "static", arguments.strip, crates.audited())
            archive(files, out, time_s, 1 if arguments.fast else 9)
    sbom(crates, out, time_s)
    made = sorted(file for file in out.iterdir() if file.suffix in (".deb", ".rpm", ".tar", ".gz", ".json"))
    sums = "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in made)
    (out / "SHA256SUMS").write_text(sums)
    (out / "SHA256SUMS.sig").unlink(missing_ok=True)
    if key := os.environ.get("LOGINSON_SIGNING_KEY"):
        run("ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", SIGNED_FOR, out / "SHA256SUMS")
    for file in made:
        print(f"{file.stat().st_size / (1 << 20):7.1f} MiB  {file}")


if __name__ == "__main__":
    main()
