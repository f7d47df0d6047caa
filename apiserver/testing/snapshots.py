"""The state of a server at one moment, which a server can begin with again."""

from __future__ import annotations

import weakref
from typing import Final

from apiserver.testkit.state_copies import StateCopy


class Snapshot:
    """A copy of all objects on a server at one point in time. A snapshot never changes, and any number of
    servers can use it.

    settings: the flags and feature gates of the server from which the snapshot was taken. A server can use
        the snapshot only if its own flags and feature gates match these settings.

    Python frees a snapshot's memory when no references to the snapshot remain.
    """

    def __init__(self, state: StateCopy, settings: tuple[object, ...]) -> None:
        self.state: Final = state
        self.settings: Final = settings
        weakref.finalize(self, state.close)

    def __repr__(self) -> str:
        return f"<Snapshot at revision {self.state.database.revision}>"
