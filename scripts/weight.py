#!/usr/bin/env python3
"""What a binary is made of: `scripts/weight.py [BINARY]`, with the names of functions still in it (a release build).

Sizes of symbols are summed by the crate whose code they are; code of a generic function counts for the crate that is named
first, so that a part of `core` and `alloc` is work of others. What has no symbol (tables for unwinding, relocations,
constants without a name) is listed by section. C libraries are told by the beginnings of their names.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys

# Rows of the table; the rest is one row.
ROWS_MAX = 22
LIBRARIES = (
    ("SQLite", r"sqlite3|sqlite"),
    ("zstd", r"ZSTD_|HUF_|FSE_|HIST_|ZSTDMT_|COVER_|ZDICT_|XXH|POOL_|divsufsort"),
    ("mimalloc", r"_?mi_|_mi"),
    ("ring", r"ring_core|ecp_|p256_|p384_|x25519|fiat_|sha\d|aes|vpaes|gcm_|gfp_|bn_|LIMBS|chacha|poly1305|nistz|curve25519|k25519"),
)
# Crates of this workspace, which are shown as one number, too.
OWN = {path.name.replace("-", "_") for path in (pathlib.Path(__file__).resolve().parent.parent / "crates").iterdir()}


def owner(name):
    """The crate, or the C library, of a symbol."""
    if re.match(r"(anon|\.L|str|switch)\b", name):
        return "constants without a name"
    if "::" not in name:
        return next((library for library, start in LIBRARIES if re.match(start, name)), "other C and the linker")
    # `<impl core::fmt::Display for store::X>::fmt` and `<store::X as core::fmt::Display>::fmt` belong to `store`.
    words = re.findall(r"(?<![:\w])([a-zA-Z_]\w*)::", name) or ["core"]
    others = [word for word in words if word not in ("core", "alloc", "std")]
    return (others or words)[0]


def main():
    binary = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else os.environ["LOGINSON_BIN"])
    listed = subprocess.run(["nm", "-C", "-S", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    sizes = collections.Counter()
    seen = set()
    for line in listed.splitlines():
        found = re.fullmatch(r"([0-9a-f]+) ([0-9a-f]+) (\w) (.*)", line)
        if found and found[3] not in "bB" and found[1] not in seen:
            # Functions that are the same code have one address.
            seen.add(found[1])
            sizes[owner(found[4])] += int(found[2], 16)
    sections = subprocess.run(["size", "-A", binary], capture_output=True, text=True, check=True).stdout
    table = {name: int(size) for name, size in re.findall(r"^(\.\S+) +(\d+)", sections, re.M)}
    unwinding = sum(table.get(name, 0) for name in (".eh_frame", ".eh_frame_hdr", ".gcc_except_table"))
    sizes["tables for unwinding (panics are caught)"] = unwinding
    sizes["relocations"] = table.get(".rela.dyn", 0)
    loaded = sum(size for name, size in table.items() if name != ".bss" and not name.startswith(".debug"))
    sizes["constants without a name"] += max(loaded - sum(sizes.values()), 0)
    file = binary.stat().st_size
    sizes["names of functions (gone with `--strip`)"] = file - loaded
    megabytes = lambda size: f"{size / (1 << 20):.1f}"
    print("| MiB | what |\n|---|---|")
    for name, size in sizes.most_common(ROWS_MAX):
        print(f"| {megabytes(size)} | {name if ' ' in name or name in dict(LIBRARIES) else f'`{name}`'} |")
    print(f"| {megabytes(sum(size for _, size in sizes.most_common()[ROWS_MAX:]))} | {len(sizes) - ROWS_MAX} others |")
    own = sum(size for name, size in sizes.items() if name in OWN)
    print(f"| **{megabytes(file)}** | **all**, of which {megabytes(own)} are crates of this repository |")


if __name__ == "__main__":
    main()
