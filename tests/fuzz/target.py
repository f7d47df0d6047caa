"""What a fuzzer is: a function of bytes, and what has to hold whatever the bytes are."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from apiserver.meta.errors import ApiError

# Of processor time. Inputs are small: what takes that long would take minutes with a body of 3 MiB.
SECONDS_MAX: Final = 1.0
MEMORY_MAX: Final = 256 * 1024 * 1024
# Larger inputs seldom reach other code, and make all their descendants slow.
INPUT_BYTES_MAX: Final = 4096
# A problem has a path of a kilobyte at most, and takes some ten bytes to make.
STATUS_BYTES_MAX: Final = 64 * 1024
STATUS_BYTES_PER_BYTE_MAX: Final = 128
# The unit of `ru_maxrss`.
_RSS_UNIT: Final = 1 if sys.platform == "darwin" else 1024


class TookTooLong(Exception):
    """An input took more processor time than it may."""


class TookTooMuchMemory(Exception):
    """An input made the process grow by more than it may."""


@dataclass(frozen=True, slots=True)
class Target:
    """One fuzzer.

    run: raises if an invariant does not hold.
    seeds: inputs to begin with. words: what guided mutations insert, as names of fields and operators.
    is_json: inputs are JSON, whose values are mutated, too.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Sequence[bytes]
    words: Sequence[bytes] = ()
    is_json: bool = False

    def check(self, data: bytes, *, patience: float = 1.0) -> None:
        """Runs one input within bounds. Raises whatever shows that an invariant does not hold.

        patience: how many times as long it may take, as where each line is counted.
        """
        if not self._is_quick(data, patience) and not self._is_quick(data, patience):
            # What is made at its first use, as a compiled schema, is there the second time.
            raise TookTooLong(f"{self.name}: more than {SECONDS_MAX * patience:g} s")

    def _is_quick(self, data: bytes, patience: float) -> bool:
        began, peak = time.process_time(), _peak_bytes()
        self.run(data)
        if (more := _peak_bytes() - peak) > MEMORY_MAX:
            raise TookTooMuchMemory(f"{self.name}: {more} bytes")
        return time.process_time() - began <= SECONDS_MAX * patience


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _RSS_UNIT


def fuzzer(
    *seeds: bytes, words: bytes = b"", is_json: bool = False
) -> Callable[[Callable[[bytes], None]], Target]:
    """Makes a target of a function, named by its module and itself. words: separated by spaces."""

    def make(run: Callable[[bytes], None]) -> Target:
        name = f"{run.__module__.rpartition('.')[2]}.{run.__name__}"
        return Target(name, run, seeds, tuple(words.split()), is_json)

    return make


def require_client_error(error: ApiError, data: bytes) -> None:
    """Whatever a client sends, a Status says what is wrong with it, and is not many times as long."""
    assert 400 <= error.code < 500, error
    assert len(orjson.dumps(error.status())) <= STATUS_BYTES_MAX + STATUS_BYTES_PER_BYTE_MAX * len(data)
