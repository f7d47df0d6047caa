"""Makes requests with long selectors take turns."""

from __future__ import annotations

from typing import Final

from apiserver.meta.options import first
from apiserver.meta.vocabulary import Query
from apiserver.storage.event_loop_turns import Turn

# Parsing a selector of 64 KB takes some milliseconds, and one of this length a few microseconds.
LONG: Final = 1_024


async def wait_for_turn(query: Query) -> None:
    """Wait until the selectors of a query may be parsed, if they are long, as many may arrive at once."""
    if "labelSelector" not in query and "fieldSelector" not in query:
        return
    if max(len(first(query, "labelSelector")), len(first(query, "fieldSelector"))) > LONG:
        turn = Turn()
        if turn.is_over():
            await turn.next()
