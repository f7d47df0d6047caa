"""Finds the states of owners whose kinds other servers serve.

As no informer covers them, they are polled: when they are first named, when the resources of the other
servers change, and repeatedly after that. A state that cannot be determined is unknown, and polled again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, Self

from apiserver.controller_runtime.controller import Controller, Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff, WorkQueue
from apiserver.controllers.garbage_collector.graph import Owner
from apiserver.controllers.garbage_collector.object_owners import OwnerReference
from apiserver.controllers.garbage_collector.rules import OwnerState

BACKOFF: Final = Backoff(base_s=1.0, max_s=300.0)
# kube-controller-manager hears of deletions at once: it watches what other servers have.
ASK_AGAIN_S: Final = 30.0
# Where there are very many of them each is asked for less often.
ASKS_PER_S_MAX: Final = 50
WORKERS: Final = 4

# Such owners are in the graph under keys that begin so, and so under no key of an object.
PREFIX: Final = "?"
_SEPARATOR: Final = "\0"


class NamedOwner(NamedTuple):
    """An owner as a reference names it. namespace: that of its dependent; empty if it has none."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, owner: Owner) -> Self | None:
        """Returns the reference of an owner in the graph; None if it stands for a whole kind."""
        match owner.key.removeprefix(PREFIX).split(_SEPARATOR, 3):
            case [api_version, kind, namespace, name]:
                return cls(api_version, kind, namespace, name, owner.uid)
        return None


def key_of(reference: OwnerReference, namespace: str) -> str:
    """Returns the graph's key for an owner whose kind is not served here."""
    return PREFIX + _SEPARATOR.join((reference.api_version, reference.kind, namespace, reference.name))


class OtherServers(Protocol):
    """The servers with other group versions."""

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Returns whether one of them is known to serve a kind."""
        ...

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when their resources, or their availability, change; returns a function that
        unsubscribes.
        """
        ...

    async def owner_state(self, owner: NamedOwner) -> OwnerState:
        """Returns the state of an owner; UNKNOWN if they do not respond."""
        ...


class RemoteOwnerResolver:
    """Tracks the owners that other servers have.

    on_change: called with an owner whose state has changed.
    """

    def __init__(
        self,
        others: OtherServers | None,
        on_change: Callable[[Owner], None],
        *,
        ask_again_s: float = ASK_AGAIN_S,
    ) -> None:
        self._others = others
        self._on_change = on_change
        self._ask_again_s = ask_again_s
        # Of those that are asked for; of the absent the graph knows.
        self._states: dict[Owner, OwnerState] = {}
        self.queue: WorkQueue[Owner] = WorkQueue("garbage_collector_owners_elsewhere", BACKOFF)

    async def run(self) -> None:
        """Poll owners until cancelled."""
        await Controller(self.queue, self._reconcile, workers=WORKERS).run()

    def call_on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` when owners should be noted again; returns a function that unsubscribes."""
        return self._others.call_on_change(callback) if self._others is not None else lambda: None

    def note(self, owner: Owner) -> None:
        """Poll an owner soon, and repeatedly after that, if another server has its kind."""
        if not owner.is_absent and self._named(owner) is not None:
            self.queue.add(owner)

    def state(self, owner: Owner) -> OwnerState:
        """Returns the known state of an owner."""
        return OwnerState.ABSENT if owner.is_absent else self._states.get(owner, OwnerState.UNKNOWN)

    def _named(self, owner: Owner) -> NamedOwner | None:
        named = NamedOwner.of(owner) if self._others is not None else None
        if named is None or self._others is None:
            return None
        return named if self._others.has_kind(named.api_version, named.kind) else None

    async def _reconcile(self, owner: Owner) -> Outcome:
        named = self._named(owner)
        if named is None or not owner.has_dependents or owner.is_absent:
            self._states.pop(owner, None)
            return None
        assert self._others is not None
        before, now = self.state(owner), await self._others.owner_state(named)
        if now is OwnerState.ABSENT:
            self._states.pop(owner, None)
            owner.is_absent = True
        else:
            self._states[owner] = now
        if now is not before:
            self._on_change(owner)
        if now is OwnerState.ABSENT:
            return None
        return Requeue(after_s=max(self._ask_again_s, len(self.queue) / ASKS_PER_S_MAX))
