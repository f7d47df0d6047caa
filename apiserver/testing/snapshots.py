"""What a server holds at one moment, to begin with again."""

from __future__ import annotations

import weakref
from typing import Final

from apiserver.testkit.state_copies import StateCopy


class Snapshot:
    """All objects of a server at one moment. Nothing changes it; any number of servers begin with it.

    It is in the memory of this process for as long as somebody refers to it.
    settings: those of the server: flags and feature gates.
    """

    def __init__(self, state: StateCopy, settings: tuple[object, ...]) -> None:
        self.state: Final = state
        self.settings: Final = settings
        weakref.finalize(self, state.close)

    def __repr__(self) -> str:
        return f"<Snapshot at revision {self.state.database.revision}>"
