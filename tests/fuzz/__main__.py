"""Runs the fuzzers: `make fuzz ARGS="--minutes 10 --only patches --jobs 2"`.

Each target runs in a process of its own. What it finds to reach new code is kept in `.fuzz/NAME`, where the
next run goes on. An input that fails is kept as `.fuzz/NAME.crash-…`, and ends the run of its target.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.fuzz import corpus, targets
from tests.fuzz.target import INPUT_BYTES_MAX

_WORK: Final = Path(".fuzz")
# An input that takes this long, of wall time, is an endless loop even on a busy machine.
_HANG_S: Final = 60
_MEMORY_MB_MAX: Final = 2048
# What is kept in the tree for a target, all inputs together.
_KEPT_BYTES_MAX: Final = 16 * 1024

_EXECUTIONS: Final = re.compile(r"stat::number_of_executed_units: (\d+)")
_COVERAGE: Final = re.compile(r"cov: (\d+) ft: (\d+) corp: (\d+)")
_OUTCOMES: Final = {"crash-": "crashed", "timeout-": "hung", "oom-": "took too much memory", "slow-unit-": ""}


@dataclass(frozen=True)
class Outcome:
    """How one target fared. branches: reached. failures: what went wrong, and the inputs' files."""

    name: str
    executions: int
    branches: int
    inputs: int
    failures: Sequence[str]

    def row(self) -> str:
        failed = "; ".join(self.failures) or "-"
        return f"{self.name:<36}{self.executions:>12,}{self.branches:>10,}{self.inputs:>8,}  {failed}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0, help="the minutes for each target (default 1)")
    parser.add_argument("--only", default="", help="run only targets whose name contains this text")
    parser.add_argument(
        "--jobs", type=int, default=1, help="the number of targets to run at the same time (default 1)"
    )
    parser.add_argument(
        "--keep", action="store_true", help="add inputs that reach new code to the corpus in the source tree"
    )
    given = parser.parse_args()
    names = [name for name in targets.names() if given.only in name]
    if not names:
        parser.error(f"no target's name contains {given.only!r}; there are: {', '.join(targets.names())}")
    _WORK.mkdir(exist_ok=True)
    print(f"{'target':<36}{'executions':>12}{'branches':>10}{'inputs':>8}  failures", flush=True)
    outcomes = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(lambda name: _fuzz(name, given.minutes, keeps=given.keep), names):
            print(outcome.row(), flush=True)
            outcomes.append(outcome)
    total = sum(each.executions for each in outcomes)
    failed = sum(bool(each.failures) for each in outcomes)
    print(f"{len(outcomes)} targets, {total:,} executions, {failed} failed")
    return 1 if failed else 0


def _fuzz(name: str, minutes: float, *, keeps: bool) -> Outcome:
    """Runs one target for some time, or until an input fails."""
    found = _WORK / name
    found.mkdir(exist_ok=True)
    target = targets.load(name)
    with tempfile.TemporaryDirectory() as directory:
        seeds = Path(directory) / "seeds"
        _write(seeds, [*target.seeds, *corpus.load(name)])
        words = Path(directory) / "words"
        words.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
        log = _libfuzzer(
            name,
            f"-max_total_time={round(minutes * 60)}",
            *([f"-dict={words}"] if target.words else []),
            f"-artifact_prefix={_WORK / name}.",
            found,
            seeds,
        )
    (_WORK / f"{name}.log").write_text(log)
    if keeps:
        _keep(name)
    executions, coverage = _EXECUTIONS.findall(log), _COVERAGE.findall(log)
    return Outcome(
        name,
        int(executions[-1]) if executions else 0,
        int(coverage[-1][0]) if coverage else 0,
        int(coverage[-1][2]) if coverage else 0,
        list(_failures(log)),
    )


def _libfuzzer(name: str, *arguments: object) -> str:
    """Returns what it prints."""
    command = [
        *(sys.executable, "-m", "tests.fuzz.guided", name),
        *("-print_final_stats=1", f"-timeout={_HANG_S}", f"-rss_limit_mb={_MEMORY_MB_MAX}"),
        f"-max_len={INPUT_BYTES_MAX}",
        *map(str, arguments),
    ]
    process = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    log = process.stdout.decode("utf-8", "replace")
    return log if process.returncode == 0 else f"{log}\nended with {process.returncode}\n"


def _failures(log: str) -> Iterator[str]:
    for prefix, outcome in _OUTCOMES.items():
        if outcome:
            for path in re.findall(rf"Test unit written to (\S*{prefix}\S*)", log):
                yield f"{outcome}: {path}"
    if "ended with" in log and "Test unit written" not in log:
        yield "could not be run; see its log"


def _write(directory: Path, inputs: Sequence[bytes]) -> None:
    directory.mkdir()
    for each in inputs:
        (directory / sha256(each).hexdigest()).write_bytes(each)


def _escaped(word: bytes) -> str:
    """Returns a word as libFuzzer's dictionaries have it."""
    return "".join(chr(byte) if 32 < byte < 127 and byte not in b'"\\' else f"\\x{byte:02x}" for byte in word)


def _keep(name: str) -> None:
    """Adds to the corpus in the tree what reaches code that nothing there reaches, the short inputs first."""
    kept = corpus.load(name)
    with tempfile.TemporaryDirectory() as directory:
        known, new = Path(directory) / "known", Path(directory) / "new"
        _write(known, [*kept, *targets.load(name).seeds])
        _write(new, [path.read_bytes() for path in (_WORK / name).iterdir()])
        before = set(known.iterdir())
        _libfuzzer(name, "-merge=1", known, new)
        found = sorted((path.read_bytes() for path in set(known.iterdir()) - before), key=len)
    left = _KEPT_BYTES_MAX - sum(map(len, kept))
    sizes = itertools.accumulate(map(len, found))
    added = [each for each, size in zip(found, sizes, strict=True) if size <= left]
    if added:
        corpus.save(name, [*kept, *added])


if __name__ == "__main__":
    sys.exit(main())
