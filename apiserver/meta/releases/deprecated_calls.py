"""Counts calls of APIs that go away, by caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from apiserver.meta.vocabulary import GroupVersion, Removal

# Counters of one user and program for one API, together some megabytes at most. Clients can invent programs:
# those beyond the limit are counted together.
CALLERS_MAX: Final = 2_000
# Counters of one user, so that no user takes all.
CALLERS_OF_USER_MAX: Final = 100
# Characters of a name that are kept.
USER_LENGTH_MAX: Final = 256
USER_AGENT_LENGTH_MAX: Final = 256
# What stands for the names of those that are counted together.
OTHER: Final = "other"


class DeprecatedApi(NamedTuple):
    """An API that goes away. deprecated: the release that deprecated it, as `1.33`; empty if none did."""

    group_version: GroupVersion
    resource: str
    deprecated: str
    removal: Removal


class ApiCaller(NamedTuple):
    user: str
    user_agent: str


@dataclass(slots=True)
class CallCount:
    """The number of calls of one API by one caller. last_seen: seconds since 1970."""

    count: int = 0
    last_seen: float = 0.0


_OTHERS: Final = ApiCaller(OTHER, OTHER)
_OTHER_API: Final = DeprecatedApi(GroupVersion(OTHER, OTHER), OTHER, "", Removal())


class DeprecatedCalls:
    """Counts calls of APIs that go away, by API, user and program.

    Its memory is bounded. Beyond the bound, the programs of a user are counted together, then all users, for
    each API with a known removal, so that each of these is always shown. All other APIs, of which clients may
    define any number, are counted together.
    """

    def __init__(
        self, callers_max: int = CALLERS_MAX, callers_of_user_max: int = CALLERS_OF_USER_MAX
    ) -> None:
        self._callers_max, self._callers_of_user_max = callers_max, callers_of_user_max
        self._calls: dict[tuple[DeprecatedApi, ApiCaller], CallCount] = {}
        self._by_user: dict[str, int] = {}

    def count(self, api: DeprecatedApi, user: str, user_agent: str, now: float) -> None:
        """Count a call. now: seconds since 1970."""
        caller = ApiCaller(user[:USER_LENGTH_MAX], user_agent[:USER_AGENT_LENGTH_MAX])
        calls = self._calls.get((api, caller))
        if calls is None:
            calls = self._counter(api, caller)
        calls.count += 1
        calls.last_seen = now

    def _counter(self, api: DeprecatedApi, caller: ApiCaller) -> CallCount:
        """Returns the counter of a new caller: its own, or one that it shares with others."""
        user = caller.user
        if len(self._calls) < self._callers_max:
            known = self._by_user.get(user, 0)
            if known >= self._callers_of_user_max:
                caller = ApiCaller(user, OTHER)
                if (calls := self._calls.get((api, caller))) is not None:
                    return calls
            self._by_user[user] = known + 1
            return self._calls.setdefault((api, caller), CallCount())
        # There are as many of these as the release has built-in versions that go.
        return self._calls.setdefault((api if api.removal.release else _OTHER_API, _OTHERS), CallCount())

    def __iter__(self) -> Iterator[tuple[DeprecatedApi, ApiCaller, CallCount]]:
        """Yields the counts: the APIs that are removed first, then the most frequent callers."""
        rows = [(api, caller, calls) for (api, caller), calls in self._calls.items()]
        yield from sorted(rows, key=_order)


def _order(row: tuple[DeprecatedApi, ApiCaller, CallCount]) -> tuple[object, ...]:
    api, caller, calls = row
    return (*removal_order(api.removal.release), api.group_version, api.resource, -calls.count, caller)


def removal_order(release: str) -> tuple[int, ...]:
    """Returns a key that sorts releases as `1.38`; an unknown one comes last."""
    return tuple(int(part) for part in release.split(".")) if release else (1 << 30,)
