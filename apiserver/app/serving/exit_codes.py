"""Defines the exit codes of the processes of a server."""

from __future__ import annotations

from typing import Final

FAILURE: Final = 1
USAGE: Final = 2
# A worker whose supervisor has died.
ORPHANED: Final = 3
# Ended by a second signal: this plus the signal's number, as shells have it.
SIGNALLED: Final = 128
