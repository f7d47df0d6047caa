"""Attacks servers and prints what others notice. See the package's docstring."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.hostile import report
from tests.hostile.attack import NotPrepared
from tests.hostile.attacks import ATTACKS
from tests.hostile.targets import Target, kube_apiserver, this_server
from tests.hostile.trial import SECONDS, SETTLE_S, ProcessEnded, run_trial

THIS_SERVER: Final = "this server"


async def run(names: list[str], targets: dict[str, Target], arguments: argparse.Namespace) -> bool:
    """Run each attack on each target; returns whether this server kept all bounds."""
    is_kept = True
    print(report.heading())
    for name in names:
        for target_name, target in targets.items():
            with tempfile.TemporaryDirectory(prefix="attack-") as directory:
                try:
                    trial = await run_trial(
                        ATTACKS[name],
                        target,
                        Path(directory),
                        scale=arguments.scale,
                        seconds=arguments.seconds,
                        settle_s=arguments.settle,
                    )
                except (NotPrepared, ProcessEnded) as error:
                    print(f"{name} on {target_name}: {error}", file=sys.stderr)
                    is_kept = False
                    continue
            if len(targets) > 1:
                trial.attack = f"{name}: {target_name}"
            print(report.line(trial), flush=True)
            print(report.details(trial), file=sys.stderr, flush=True)
            is_kept = is_kept and (target is not targets[THIS_SERVER] or not trial.missed())
    return is_kept


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.hostile", description=__doc__)
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="run only attacks whose name contains this text (default: all attacks)",
    )
    parser.add_argument("--scale", type=int, default=1, help="multiply the numbers of all attacks")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="the duration of each attack")
    parser.add_argument(
        "--settle", type=float, default=SETTLE_S, help="the seconds to wait until memory is free again"
    )
    parser.add_argument("--peer", type=Path, help="a kube-apiserver program to attack in the same way")
    parser.add_argument("--etcd", action="store_true", help="attack this server on etcd")
    parser.add_argument("--flag", action="append", default=[], help="a flag for this server")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a result exceeds its bound")
    parser.add_argument("--list", action="store_true", help="print the attacks, and exit")
    arguments = parser.parse_args()
    names = [name for name in ATTACKS if not arguments.only or any(part in name for part in arguments.only)]
    if arguments.list:
        for name in names:
            print(f"{name} ({ATTACKS[name].finding}): {ATTACKS[name].description}")
        return 0
    targets = {THIS_SERVER: this_server(*arguments.flag, on_etcd=arguments.etcd)}
    if arguments.peer:
        targets["kube-apiserver"] = kube_apiserver(arguments.peer)
    is_kept = asyncio.run(run(names, targets, arguments))
    return 0 if is_kept or not arguments.check else 1


if __name__ == "__main__":
    sys.exit(main())
