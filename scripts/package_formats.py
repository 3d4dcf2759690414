"""Writes packages of Debian and RPM, and tar files, always the same bytes for the same content.

Both formats are small and have not changed for many years, so they are written here, without tools of either system:
Debian's in deb(5), an `ar` file of two tar files; RPM's version 4 in its manual ("RPM V4 Package format"), two lists of
tagged values and a cpio file. `scripts/test-packages.py` has both read by dpkg and rpm.

A file of a package is (place, content, mode, kind); the kind `setting` is a file that users change.
"""

import hashlib
import io
import lzma
import re
import struct
import tarfile


class Tar:
    """A tar file with fixed times; folders are added by themselves."""

    def __init__(self, time_s, prefix=""):
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.GNU_FORMAT)
        self.time_s, self.prefix, self.folders = time_s, prefix, set()

    def _add(self, place, kind, mode, data=b"", user=0):
        entry = tarfile.TarInfo(self.prefix + place.strip("/"))
        entry.type, entry.mode, entry.mtime, entry.size = kind, mode, self.time_s, len(data)
        entry.uid = entry.gid = user
        if user == 0:
            entry.uname = entry.gname = "root"
        self.tar.addfile(entry, io.BytesIO(data) if data else None)

    def folder(self, place, mode=0o755, user=0):
        place = place.rstrip("/")
        if place and place not in self.folders:
            self.folder(place.rpartition("/")[0])
            self.folders.add(place)
            self._add(place, tarfile.DIRTYPE, mode, user=user)

    def file(self, place, data, mode=0o644):
        self.folder(place.rpartition("/")[0])
        self._add(place, tarfile.REGTYPE, mode, data)

    def done(self):
        self.tar.close()
        return self.bytes.getvalue()


def xz(data, preset):
    return lzma.compress(data, preset=preset)


def debian(about, files, scripts, time_s, preset):
    """A Debian package. `about`: name, version, arch, maintainer, summary, depends; `scripts` by their names."""
    kib = sum(len(data) + 1023 >> 10 for _, data, _, _ in files)
    control = (
        f"Package: {about['name']}\nVersion: {about['version']}\nArchitecture: {about['arch']}\n"
        f"Maintainer: {about['maintainer']}\nInstalled-Size: {kib}\nDepends: {', '.join(about['depends'])}\n"
        f"Section: admin\nPriority: optional\nDescription: {about['summary']}\n"
    )
    settings = "".join(f"{place}\n" for place, _, _, kind in files if kind == "setting")
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {place.lstrip('/')}\n" for place, data, _, _ in files)
    inner = Tar(time_s, "./")
    inner.file("control", control.encode())
    inner.file("conffiles", settings.encode())
    inner.file("md5sums", sums.encode())
    for name, text in sorted(scripts.items()):
        inner.file(name, text, 0o755)
    outer = Tar(time_s, "./")
    for place, data, mode, _ in sorted(files):
        outer.file(place, data, mode)
    members = [
        ("debian-binary", b"2.0\n"),
        ("control.tar.xz", xz(inner.done(), preset)),
        ("data.tar.xz", xz(outer.done(), preset)),
    ]
    archive = b"!<arch>\n"
    for name, data in members:
        archive += f"{name:<16}{time_s:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        archive += data + b"\n" * (len(data) % 2)
    return archive


# Types of values in a header of RPM.
INT16, INT32, STRING, BINARY, STRINGS, TRANSLATED = 3, 4, 6, 7, 8, 9
WIDTHS = {INT16: (2, ">H"), INT32: (4, ">I")}


def header(region, tags):
    """A header of RPM: an index of tags and their values, all within one region."""
    store, index = b"", []
    for tag, (kind, value) in sorted(tags.items()):
        values = value if isinstance(value, list) else [value]
        count = len(values)
        if kind in WIDTHS:
            width, form = WIDTHS[kind]
            store += bytes(-len(store) % width)
            data = b"".join(struct.pack(form, number) for number in values)
        elif kind == BINARY:
            data, count = value, len(value)
        else:
            data = b"".join(text.encode() + b"\0" for text in values)
        index.append(struct.pack(">IIII", tag, kind, len(store), count))
        store += data
    # The region's own entry comes first; its trailer stands at the end of the values.
    first = struct.pack(">IIII", region, BINARY, len(store), 16)
    store += struct.pack(">IIiI", region, BINARY, -16 * (len(index) + 1), 16)
    intro = b"\x8e\xad\xe8\x01" + bytes(4) + struct.pack(">II", len(index) + 1, len(store))
    return intro + first + b"".join(index) + store


def cpio(entries, time_s):
    archive = bytearray()
    for number, (place, data, mode) in enumerate(entries, 1):
        name = f".{place}".encode() + b"\0"
        fields = [number, mode, 0, 0, 1, time_s, len(data), 0, 0, 0, 0, len(name), 0]
        archive += b"070701" + "".join(f"{field:08x}" for field in fields).encode() + name
        archive += bytes(-len(archive) % 4) + data
        archive += bytes(-len(archive) % 4)
    name = b"TRAILER!!!\0"
    archive += b"070701" + "".join(f"{field:08x}" for field in [0] * 4 + [1] + [0] * 6 + [len(name), 0]).encode() + name
    archive += bytes(-len(archive) % 4)
    return bytes(archive)


def rpm(about, files, scripts, time_s, preset):
    """An RPM package. `about` has besides: release, description, license, folders that belong to the package alone."""
    entries = [(place, data, 0o100000 | mode, kind) for place, data, mode, kind in files]
    entries += [(place, b"", 0o040755, "folder") for place in about["folders"]]
    entries.sort()
    folders = sorted({place.rpartition("/")[0] + "/" for place, *_ in entries})
    # Configurations that users change are kept (1: configuration, 16: a newer one goes beside it); 2: document.
    flags = {"setting": 1 | 16, "document": 2}
    plain = cpio([(place, data, mode) for place, data, mode, _ in entries], time_s)
    payload = xz(plain, preset)
    version, name = about["version"], about["name"]
    of_rpm = [
        ("rpmlib(CompressedFileNames)", "3.0.4-1"),
        ("rpmlib(FileDigests)", "4.6.0-1"),
        ("rpmlib(PayloadFilesHavePrefix)", "4.0-1"),
        ("rpmlib(PayloadIsXz)", "5.2-1"),
    ]
    requires = [(what, 0, "") for what in ["/bin/sh", *about["depends"]]]
    requires += [(what, 1 << 24 | 2 | 8, version) for what, version in of_rpm]
    each = lambda kind, value: (kind, [value(*entry) for entry in entries])
    tags = {
        100: (STRINGS, ["C"]),
        1000: (STRING, name),
        1001: (STRING, version),
        1002: (STRING, about["release"]),
        1004: (TRANSLATED, [about["summary"]]),
        1005: (TRANSLATED, [about["description"]]),
        1006: (INT32, time_s),
        1007: (STRING, "localhost"),
        1009: (INT32, sum(len(data) for _, data, _, _ in entries)),
        1014: (STRING, about["license"]),
        1016: (TRANSLATED, ["System Environment/Daemons"]),
        1021: (STRING, "linux"),
        1022: (STRING, about["arch"]),
        1028: each(INT32, lambda place, data, mode, kind: len(data)),
        1030: each(INT16, lambda place, data, mode, kind: mode),
        1033: each(INT16, lambda *_: 0),
        1034: each(INT32, lambda *_: time_s),
        1035: each(STRINGS, lambda place, data, mode, kind: "" if kind == "folder" else hashlib.sha256(data).hexdigest()),
        1036: each(STRINGS, lambda *_: ""),
        1037: each(INT32, lambda place, data, mode, kind: flags.get(kind, 0)),
        1039: each(STRINGS, lambda *_: "root"),
        1040: each(STRINGS, lambda *_: "root"),
        1044: (STRING, f"{name}-{version}-{about['release']}.src.rpm"),
        1045: each(INT32, lambda *_: 0xFFFFFFFF),
        1047: (STRINGS, [name]),
        1048: (INT32, [flag for _, flag, _ in requires]),
        1049: (STRINGS, [what for what, _, _ in requires]),
        1050: (STRINGS, [version for _, _, version in requires]),
        1064: (STRING, "4.18.0"),
        1095: each(INT32, lambda *_: 1),
        1096: (INT32, list(range(1, len(entries) + 1))),
        1097: each(STRINGS, lambda *_: ""),
        1112: (INT32, [8]),
        1113: (STRINGS, [f"{version}-{about['release']}"]),
        1116: each(INT32, lambda place, *_: folders.index(place.rpartition("/")[0] + "/")),
        1117: each(STRINGS, lambda place, *_: place.rpartition("/")[2]),
        1118: (STRINGS, folders),
        1124: (STRING, "cpio"),
        1125: (STRING, "xz"),
        1126: (STRING, str(preset)),
        5011: (INT32, 8),
        5062: (STRING, "utf-8"),
        5092: (STRINGS, [hashlib.sha256(payload).hexdigest()]),
        5093: (INT32, 8),
    }
    # After installing, before and after removing: the script, and what runs it.
    for script, tag, runs in (("postinst", 1024, 1086), ("prerm", 1025, 1087), ("postrm", 1026, 1088)):
        tags[tag], tags[runs] = (STRING, scripts[script].decode()), (STRING, "/bin/sh")
    main = header(63, tags)
    signature = header(
        62,
        {
            269: (STRING, hashlib.sha1(main).hexdigest()),
            273: (STRING, hashlib.sha256(main).hexdigest()),
            1000: (INT32, len(main) + len(payload)),
            1004: (BINARY, hashlib.md5(main + payload).digest()),
            1007: (INT32, len(plain)),
        },
    )
    lead = struct.pack(">4sBBHH66sHH16s", b"\xed\xab\xee\xdb", 3, 0, 0, 1, f"{name}-{version}".encode(), 1, 5, b"")
    return lead + signature + bytes(-len(signature) % 8) + main + payload


def glibc_min(program):
    """The oldest glibc that has all functions the program calls; none for a static program."""
    found = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", program)
    return "{}.{}".format(*max((int(a), int(b)) for a, b in found)) if found else None
