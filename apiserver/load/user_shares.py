"""Pools of slots, or bytes, that users share so that none of them holds up the others.

Users need no list, no quota and no history: what a user may hold follows from what is free now. It is the
dynamic threshold by which switches share a buffer between their ports. Source: Choudhury and Hahne, "Dynamic
Queue Length Thresholds for Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2), 1998.

Bodies, slots and places of paused requests are shared so. Requests wait for their seats in
`endpoints.flowcontrol`, and long lists for their turns on the event loop in `storage.event_loop_turns`.
"""

from __future__ import annotations

from typing import Final

from apiserver.meta.vocabulary import UserInfo

# A user may hold this multiple of what is free. Alone it gets 4/5 of the pool; of n users who want as much as
# possible each gets 4/(1 + 4n), and 1/(1 + 4n) remains free for the next one: of 200 slots 40, 22, 15. A
# larger share for one user alone would leave little to the others at once; a smaller one would leave most of
# the pool idle.
SHARE_OF_FREE: Final = 4
_SERVICE_ACCOUNT: Final = "system:serviceaccount:"


def holder_of(user: UserInfo) -> str:
    """Returns the name under which a user shares a pool with others.

    The service accounts of a namespace share one name, since a user who may create one there may create any
    number.
    """
    name = user.name
    return name.rpartition(":")[0] if name.startswith(_SERVICE_ACCOUNT) else name


class SharedPool:
    """The shares of a capacity that users hold.

    capacity: math.inf for no limit.
    free: the part that no user holds.
    """

    __slots__ = ("_held", "free")

    def __init__(self, capacity: float) -> None:
        self.free = capacity
        self._held: dict[str, int] = {}  # by user, for users that hold something

    @property
    def held_total(self) -> int:
        """The part that users hold."""
        return sum(self._held.values())

    def held(self, user: str) -> int:
        return self._held.get(user, 0)

    def take(self, user: str, amount: int = 1) -> bool:
        """Reserve more for a user: a first part if available, and then up to the user's share.

        Returns False, and gives nothing, if the user may have no more now.
        """
        held = self._held.get(user, 0)
        free = self.free
        if amount > free or (held and held + amount > SHARE_OF_FREE * free):
            return False
        self._held[user] = held + amount
        self.free = free - amount
        return True

    def exceeds_share(self, user: str, amount: int = 1) -> bool:
        """Returns whether a user that holds something has to wait until it, or others, have returned some."""
        held = self._held.get(user, 0)
        return held > 0 and held + amount > SHARE_OF_FREE * self.free

    def give_back(self, user: str, amount: int = 1) -> None:
        """Take back a share from a user."""
        left = self._held.pop(user) - amount
        assert left >= 0
        if left:
            self._held[user] = left
        self.free += amount
