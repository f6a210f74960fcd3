"""Compile the .proto files in this directory into schema.binpb: run it after any change."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def compile_into(target: Path) -> None:
    """Write the descriptor set of every .proto here to `target`; needs grpcio-tools."""
    from grpc_tools import protoc  # a development tool, not a dependency of tfprobe

    names = sorted(path.name for path in HERE.glob("*.proto"))
    status = protoc.main(["protoc", f"-I{HERE}", f"--descriptor_set_out={target}", *names])
    if status != 0:
        raise SystemExit(status)


if __name__ == "__main__":
    compile_into(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "schema.binpb")
