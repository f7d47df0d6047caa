"""Checks the limits of the process: open files and memory."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from apiserver.app.doctor.report import Finding, error, note, ok, warning
from apiserver.app.doctor.units import count, size
from apiserver.app.serving.listener import RESERVED_FILES
from apiserver.cli.config import Config
from apiserver.load.memory_budget import HIGH
from apiserver.load.process_memory import container_limit_bytes


class OpenFiles(NamedTuple):
    """The limits of open files. hard: None if there is none. connections: --max-connections, 0 for none."""

    hard: int | None
    connections: int


class Memory(NamedTuple):
    """The limits of memory, in bytes; 0 if there is none.

    flag: --memory-limit; None if it is not set. container: that of the control group. machine: the memory of
    the machine. history: --watch-cache-history-bytes. workers: how many processes share the limit.
    """

    flag: int | None
    container: int
    machine: int
    history: int
    workers: int


def gather_open_files(config: Config) -> OpenFiles:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFiles(None if hard == resource.RLIM_INFINITY else hard, config.serving.max_connections)


def gather_memory(config: Config) -> Memory:
    machine = 0
    with suppress(OSError, ValueError):  # Some systems do not report it.
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    storage = config.storage
    return Memory(
        storage.memory_limit_bytes,
        container_limit_bytes(),
        machine,
        storage.watch_cache_history_bytes,
        config.serving.workers,
    )


def examine_open_files(facts: OpenFiles) -> Iterator[Finding]:
    """Yields findings about the limit of this process, which a server has if it is started likewise."""
    if facts.hard is None:
        yield ok("there is no limit on open files")
        return
    room = max(1, facts.hard - RESERVED_FILES)
    if facts.connections and room >= facts.connections:
        yield ok(f"the limit of {facts.hard} open files is enough for --max-connections={facts.connections}")
        return
    wanted = (facts.connections or 10_000) + RESERVED_FILES
    message = f"the limit of {facts.hard} open files allows {count(room, 'connection')}"
    advice = (
        f"Raise the limit to {wanted} (ulimit -Hn, or LimitNOFILE of systemd), or lower --max-connections."
    )
    if facts.connections:
        yield warning(f"{message}, but --max-connections is {facts.connections}", advice)
    else:
        yield note(message, advice)


def examine_memory(facts: Memory) -> Iterator[Finding]:
    limit = facts.container if facts.flag is None else facts.flag
    if facts.flag and facts.container and facts.flag > facts.container:
        yield error(
            f"--memory-limit is {size(facts.flag)}, but the limit of the container is "
            f"{size(facts.container)}",
            "Set --memory-limit to at most the limit of the container, or omit the flag.",
        )
    elif limit and facts.machine and limit > facts.machine:
        yield warning(
            f"the memory limit is {size(limit)}, but this machine has only {size(facts.machine)}",
            "Lower --memory-limit, so that the server rejects requests before the system kills the process.",
        )
    elif not limit:
        yield note(
            "the server has no memory limit",
            "Set --memory-limit or a container limit, so that the server rejects requests before memory "
            "runs out.",
        )
    else:
        yield ok(f"the memory limit is {size(limit)}")
    each = limit // facts.workers
    if each and facts.history > HIGH * each:
        share = f" for each of {facts.workers} workers" if facts.workers > 1 else ""
        yield warning(
            f"--watch-cache-history-bytes is {size(facts.history)}, but the memory limit is "
            f"{size(each)}{share}",
            "Lower --watch-cache-history-bytes to a quarter of the memory limit, or raise the limit.",
        )
