"""Runs workloads and prints a line for each result. See the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

import uvloop

from benchmarks import report, workloads
from benchmarks.admission import admission
from benchmarks.applies import apply_workload
from benchmarks.collecting import collect
from benchmarks.custom_resources import custom_resources
from benchmarks.encodings import encodings, openapi
from benchmarks.features import features
from benchmarks.forks import forks, servers
from benchmarks.scale import scale
from benchmarks.workloads import Settings

WORKLOADS = {
    **workloads.WORKLOADS,
    "admission": admission,
    "apply": apply_workload,
    "collect": collect,
    "custom": custom_resources,
    "features": features,
    "forks": forks,
    "forms": encodings,
    "openapi": openapi,
    "scale": scale,
    "servers": servers,
}


async def run(names: list[str], seconds: float) -> bool:
    """Run workloads; returns whether all targets are met."""
    is_met = True
    print(report.heading())
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        for name in names:
            async for result in WORKLOADS[name](Settings(seconds, Path(directory))):
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
    parser.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    arguments = parser.parse_args()
    is_met = asyncio.Runner(loop_factory=uvloop.new_event_loop).run(
        run(arguments.works or list(WORKLOADS), arguments.seconds)
    )
    return 0 if is_met or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
