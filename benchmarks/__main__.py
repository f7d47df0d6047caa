"""Runs workloads and prints a line for each result. See the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import uvloop

from benchmarks import report, workloads
from benchmarks.admission import admission
from benchmarks.applies import apply_workload
from benchmarks.collecting import collect
from benchmarks.console import console
from benchmarks.custom_resources import custom_resources
from benchmarks.encodings import encodings, openapi
from benchmarks.extensions import extensions
from benchmarks.features import features
from benchmarks.forks import forks, servers
from benchmarks.history import history
from benchmarks.scale import scale
from benchmarks.workers import workers
from benchmarks.workloads import Settings

WORKLOADS = {
    **workloads.WORKLOADS,
    "admission": admission,
    "apply": apply_workload,
    "collect": collect,
    "console": console,
    "custom": custom_resources,
    "extensions": extensions,
    "features": features,
    "forks": forks,
    "forms": encodings,
    "history": history,
    "openapi": openapi,
    "scale": scale,
    "servers": servers,
    "workers": workers,
}


async def run(names: Sequence[str], seconds: float, stores: Sequence[str]) -> bool:
    """Run workloads; returns whether all targets are met."""
    is_met = True
    print(report.heading())
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        for name in names:
            async for result in WORKLOADS[name](Settings(seconds, Path(directory), stores)):
                print(report.line(result), flush=True)
                is_met = is_met and result.is_met
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument(
        "works", nargs="*", choices=[*WORKLOADS, []], help="which workloads; all if none is named"
    )
    parser.add_argument(
        "--seconds", type=float, default=workloads.SECONDS, help="how long each rate is measured"
    )
    parser.add_argument(
        "--store",
        action="append",
        choices=workloads.STORES,
        dest="stores",
        help="a store of the workloads get, list, write, watch and apply; may be repeated "
        f"(default: {' and '.join(workloads.DEFAULT_STORES)})",
    )
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    arguments = parser.parse_args()
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # It reports each fork otherwise.
    is_met = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(
        run(
            arguments.works or list(WORKLOADS),
            arguments.seconds,
            arguments.stores or workloads.DEFAULT_STORES,
        )
    )
    return 0 if is_met or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
