"""Knows the releases of etcd with reliable progress reports, and those with known faults."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class EtcdVersion(NamedTuple):
    """A release of etcd; pre-release suffixes are ignored."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> EtcdVersion:
        """Reads `3.5.13` or `3.6.0-rc.1`; anything else counts as the oldest release."""
        match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
        return cls(*map(int, match.groups())) if match else cls(0, 0, 0)

    @property
    def has_ordered_progress(self) -> bool:
        """Whether progress reports come after the events they cover (etcd issue 15220)."""
        return any(low <= self < high for low, high in _ORDERED_PROGRESS)

    @property
    def warning(self) -> str | None:
        """The reason why this release should not hold important data, if there is one."""
        for low, high, reason in _WARNINGS:
            if low <= self < high:
                return reason
        return None

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


_END: Final = EtcdVersion(10**6, 0, 0)
_ORDERED_PROGRESS: Final = [(EtcdVersion(3, 4, 31), EtcdVersion(3, 5, 0)), (EtcdVersion(3, 5, 13), _END)]
_WARNINGS: Final = [
    (EtcdVersion(3, 5, 0), EtcdVersion(3, 5, 3), "this release can lose committed data when etcd is killed"),
    (EtcdVersion(3, 5, 3), EtcdVersion(3, 5, 13), "a watch can miss events after a compaction"),
    (EtcdVersion(0, 0, 0), EtcdVersion(3, 4, 31), "a watch can miss events after a compaction"),
]
