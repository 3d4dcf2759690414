"""Bytes of a log file as a CLP IR stream, compressed by zstd -3. Needs clp-ffi-py from PyPI."""

import subprocess
import sys

from clp_ffi_py.ir import FourByteSerializer


def main() -> None:
    zstd = subprocess.Popen(
        ["zstd", "-3", "-q", "-c"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    counter = subprocess.Popen(["wc", "-c"], stdin=zstd.stdout, stdout=subprocess.PIPE)
    zstd.stdin.write(FourByteSerializer.serialize_preamble(0, "", "UTC"))
    with open(sys.argv[1], "rb") as lines:
        for line in lines:
            zstd.stdin.write(
                FourByteSerializer.serialize_message_and_timestamp_delta(0, line)
            )
    zstd.stdin.write(FourByteSerializer.serialize_end_of_ir())
    zstd.stdin.close()
    print(counter.communicate()[0].decode().strip())


main()
