"""Identifies the processes of one port, each of which answers for its own requests only."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from types import MappingProxyType


def worker_identity(workers: int) -> Mapping[str, int | str]:
    """Returns the fields of a process's documents by which a client knows whether it has asked all processes.

    workers: the number of processes that serve the port.
    """
    return MappingProxyType({"workers": workers, "worker": secrets.token_hex(8)})
