"""The server, started so that it tells what is in its memory: `tests/server/test_nothing_is_kept.py`.

SIGUSR1 has it write which kinds of objects hold texts with `MARK` in them, and how many such texts; SIGUSR2
what has become garbage in cycles since the last one.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from types import CellType, FrameType, FunctionType
from typing import Any, Final

import orjson

from apiserver.__main__ import main
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

# What tests put into the names of things that are to be forgotten.
MARK: Final = "forgettable"
_MARK_BYTES: Final = MARK.encode()
# Kinds that say nothing by themselves: what holds them is looked for.
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, deque, CellType)
_OWNERS_MAX: Final = 4


def _names_it(found: Any) -> bool:
    return (isinstance(found, str) and MARK in found) or (isinstance(found, bytes) and _MARK_BYTES in found)


def _kind(holder: Any) -> str:
    named = holder if isinstance(holder, FunctionType) else type(holder)
    return f"{named.__module__}.{named.__qualname__}"


def holders() -> Counter[str]:
    """Return how many such texts each kind of object refers to; for containers, also what holds them."""
    gc.unfreeze()  # what there was when the server became ready, the modules' dictionaries among it
    gc.collect()
    objects = [each for each in gc.get_objects() if not isinstance(each, FrameType)]
    found: Counter[str] = Counter()
    counts = ((each, sum(map(_names_it, gc.get_referents(each)))) for each in objects)
    unnamed: list[tuple[Any, str, int]] = [(each, "", count) for each, count in counts if count]
    for _ in range(_OWNERS_MAX):
        owners = _owners(objects, {id(each) for each, _, _ in unnamed if type(each) in _CONTAINERS})
        remaining = []
        for each, path, count in unnamed:
            owner, path = owners.get(id(each)), f"{path}{_kind(each)}"
            if owner is None:
                found[path] += count
            else:
                remaining.append((owner, f"{path} of ", count))
        unnamed = remaining
    found.update({f"{path}…": count for _, path, count in unnamed})
    return found


def _owners(objects: list[Any], containers: set[int]) -> dict[int, Any]:
    """What refers to these objects, one each, by the ids of these."""
    owners: dict[int, Any] = {}
    for each in objects:
        for referent in gc.get_referents(each):
            if id(referent) in containers:
                owners[id(referent)] = each
    return owners


def garbage() -> Counter[str]:
    """Return what only a garbage collection frees, by kind, since the last call. The first one begins it."""
    gc.collect()
    found = Counter(map(_kind, gc.garbage))
    gc.set_debug(0)
    gc.garbage.clear()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    return found


def answer_signals(data_dir: Path) -> None:
    def answer(number: int, _: object) -> None:
        told = data_dir / "told"
        partial = told.with_suffix(".partial")
        partial.write_bytes(orjson.dumps(holders() if number == signal.SIGUSR1 else garbage()))
        partial.rename(told)

    signal.signal(signal.SIGUSR1, answer)
    signal.signal(signal.SIGUSR2, answer)


class InspectedServer(ServerProcess):
    """The server's process, which can be asked."""

    def __init__(self, data_dir: Path, *flags: str) -> None:
        super().__init__(data_dir, *flags, module=__name__)

    def holders(self) -> Mapping[str, int]:
        return self._ask(signal.SIGUSR1)

    def garbage(self) -> Mapping[str, int]:
        return self._ask(signal.SIGUSR2)

    def _ask(self, number: signal.Signals) -> Mapping[str, int]:
        told = self.data_dir / "told"
        told.unlink(missing_ok=True)
        self.send_signal(number)
        until(told.exists, bool, "an answer to the signal")
        answer: dict[str, int] = orjson.loads(told.read_bytes())
        return answer


if __name__ == "__main__":
    (directory,) = (flag.partition("=")[2] for flag in sys.argv if flag.startswith("--data-dir="))
    answer_signals(Path(directory))
    sys.exit(main())
