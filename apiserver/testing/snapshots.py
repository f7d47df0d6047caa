"""The state of a server at one moment, which a server can begin with again."""

from __future__ import annotations

import weakref
from typing import Final

from apiserver.testkit.state_copies import StateCopy


class Snapshot:
    """Holds all objects of a server at one moment. It never changes; any number of servers can use it.

    settings: the flags and feature gates of the server. Only servers with the same ones can use it.
    Its memory is freed when nothing refers to it any more.
    """

    def __init__(self, state: StateCopy, settings: tuple[object, ...]) -> None:
        self.state: Final = state
        self.settings: Final = settings
        weakref.finalize(self, state.close)

    def __repr__(self) -> str:
        return f"<Snapshot at revision {self.state.database.revision}>"
