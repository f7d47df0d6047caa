"""Whatever faults a server has, who follows it ends with its state: clients by hand, and client libraries.

`python -m tests.testing.test_faults_and_clients` measures which libraries do so for each fault alone, and
prints a table, whose summary docs/testing/faults.md has.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from apiserver.testing import (
    Answer,
    ApiServer,
    CutConnection,
    Delay,
    Effect,
    EndWatch,
    ExpireToken,
    HoldBookmarks,
    HoldEvents,
    Match,
    NotReady,
    RefuseTls,
    Snapshot,
    User,
)
from tests.support.eventually import until
from tests.support.followers import CONFIG_MAPS, FOLLOWS, INFORMERS, Access, Follower

TOKEN: Final = "follower-token"
MASTER: Final = User("follower", ("system:masters",))
# By when a follower has recovered: the slowest waits for 5 s between its attempts.
RECOVERED_WITHIN_S: Final = 60.0
POLL_S: Final = 0.01
NAMES: Final = ("a", "b", "c")


@pytest.fixture(scope="module")
def base() -> Iterator[tuple[ApiServer, Snapshot]]:
    with ApiServer(tokens={TOKEN: MASTER}) as server:
        yield server, server.snapshot()


def write(server: ApiServer, name: str) -> None:
    """Create, or change, or else delete a ConfigMap, one after the other."""
    path = f"{CONFIG_MAPS}/{name}"
    code, found = server.request("GET", path)
    if code == 404:
        code, _ = server.request("POST", CONFIG_MAPS, {"metadata": {"name": name}})
        assert code == 201
    elif "data" not in found:
        assert server.request("PUT", path, {**found, "data": {"k": "v"}})[0] == 200
    else:
        assert server.request("DELETE", path)[0] == 200


def state_of(server: ApiServer) -> dict[str, str]:
    _, listed = server.request("GET", CONFIG_MAPS)
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}


def has_state(follower: Any, server: ApiServer, within_s: float) -> bool:
    """Whether a follower has the server's state, or gets it in time."""
    ends_at = time.monotonic() + within_s
    while (found := follower.state) != state_of(server):
        if time.monotonic() > ends_at or (follower.is_over and follower.state == found):
            return False
        time.sleep(POLL_S)
    return True


MATCHES: Final = st.builds(
    Match,
    verb=st.sampled_from(["", "list", "watch"]),
    resource=st.sampled_from(["", "configmaps"]),
    nth=st.sampled_from([None, None, 1, 2]),
)
OF_WATCHES: Final = st.builds(Match, verb=st.just("watch"), nth=st.sampled_from([None, None, 1, 2]))
SHORT_S: Final = st.sampled_from([0.01, 0.1])
EVENTS: Final = st.integers(0, 2)
FAULTS: Final = st.one_of(
    st.tuples(
        st.one_of(
            st.builds(Answer, st.sampled_from([403, 409, 410, 429, 500, 503])),
            st.builds(Answer, st.just(504), after_write=st.just(True)),
            st.builds(Delay, SHORT_S),
            st.builds(CutConnection, st.sampled_from(["before-write", "after-write"])),
        ),
        MATCHES,
    ),
    st.tuples(
        st.one_of(
            st.builds(EndWatch, st.booleans(), EVENTS),
            st.builds(CutConnection, st.just("in-event"), EVENTS),
            st.builds(HoldEvents, SHORT_S),
            st.builds(HoldBookmarks, SHORT_S),
        ),
        OF_WATCHES,
    ),
    st.tuples(st.just(ExpireToken()), st.just(Match())),
    st.tuples(st.builds(NotReady, SHORT_S) | st.builds(RefuseTls, SHORT_S), st.just(Match())),
)
# A name is written; None has the history forgotten; a fault is had so many times.
STEPS: Final = st.lists(
    st.one_of(
        st.sampled_from(NAMES), st.sampled_from(NAMES), st.tuples(FAULTS, st.integers(1, 3)), st.none()
    ),
    min_size=3,
    max_size=25,
)


def have(server: ApiServer, steps: Sequence[Any]) -> None:
    for step in steps:
        match step:
            case None:
                server.compact()
            case str():
                write_although(server, step)
            case (effect, matching), times:
                server.faults.inject(effect, matching, times=times, must_hit=False)


def write_although(server: ApiServer, name: str) -> None:
    """Write when TLS handshakes are not refused, as they are to everybody."""

    def has_written() -> bool:
        try:
            write(server, name)
        except OSError:
            return False
        return True

    until(has_written)


@contextlib.contextmanager
def followed(server: ApiServer, begin: Callable[[Access], Any]) -> Iterator[Any]:
    follower = begin(Access.to(server, TOKEN))
    try:
        yield follower
    finally:
        server.stop()
        follower.stop()


def beginning(name: str, *, loops: bool) -> Callable[[Access], Any]:
    """Returns what begins to follow."""
    if name in INFORMERS:
        return INFORMERS[name]
    return lambda access: Follower(FOLLOWS[name], access, loops=loops)


def check(base: tuple[ApiServer, Snapshot], name: str, steps: Sequence[Any]) -> None:
    server, snapshot = base
    with server.fork(snapshot) as fork, followed(fork, beginning(name, loops=True)) as follower:
        assert has_state(follower, fork, RECOVERED_WITHIN_S)
        have(fork, steps)
        # Its faults are over; what they have done to the follower is not.
        fork.faults.clear()
        recovered = False
        with contextlib.suppress(OSError):
            recovered = has_state(follower, fork, RECOVERED_WITHIN_S)
        note(f"{name}: {follower.state} of {state_of(fork)}; {follower.ended_by}")
        assert recovered


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
def test_a_client_ends_with_the_state_of_the_server(
    base: tuple[ApiServer, Snapshot], steps: Sequence[Any]
) -> None:
    check(base, "by hand", steps)


# ---- each fault alone

ON_WATCHES: Final = Match(verb="watch", resource="configmaps")
# What befalls a watch that has not sent the last changes yet. What is done once comes last.
SCENARIOS: Final[Mapping[str, tuple[bool, Sequence[tuple[Effect, Match]]]]] = {
    "ends": (False, [(EndWatch(silently=True), ON_WATCHES)]),
    "ends with 410": (False, [(EndWatch(), ON_WATCHES)]),
    "ends, and its history is gone": (True, [(EndWatch(silently=True), ON_WATCHES)]),
    "is cut in an event": (False, [(CutConnection("in-event"), ON_WATCHES)]),
    "ends, and the next is cut": (
        False,
        [(CutConnection(), ON_WATCHES), (EndWatch(silently=True), ON_WATCHES)],
    ),
    "ends, and the next is answered 429": (
        False,
        [(Answer(429, retry_after_s=1), ON_WATCHES), (EndWatch(silently=True), ON_WATCHES)],
    ),
    "ends, and the next is answered 503": (
        False,
        [(Answer(503), ON_WATCHES), (EndWatch(silently=True), ON_WATCHES)],
    ),
}


def survives(base: tuple[ApiServer, Snapshot], name: str, scenario: str, *, loops: bool) -> tuple[bool, str]:
    """Whether a follower ends with the server's state, and what has ended it, if it has ended by itself."""
    server, snapshot = base
    is_compacted, faults = SCENARIOS[scenario]
    with server.fork(snapshot) as fork:
        write(fork, "a")
        write(fork, "a")
        with followed(fork, beginning(name, loops=loops)) as follower:
            assert has_state(follower, fork, RECOVERED_WITHIN_S)
            with fork.faults.inject(HoldEvents(), ON_WATCHES) as hold:
                write(fork, "a")  # which deletes it
                write(fork, "b")
                if is_compacted:
                    fork.compact()
                for effect, match in faults:
                    fork.faults.inject(effect, match, times=1)
                if isinstance(faults[-1][0], CutConnection):
                    hold.clear()
            return has_state(follower, fork, MEASURED_WITHIN_S), follower.ended_by


MEASURED_WITHIN_S: Final = 12.0
# The followers that recover from all of these, in a loop or by themselves: docs/testing/faults.md.
RECOVER: Final = (
    "by hand",
    "kubernetes, SharedInformer",
    "kubernetes, Watch",
    "kubernetes_asyncio, Watch",
    "lightkube, watch",
    "pykube, watch",
)


# Libraries leave connections open when the server is gone before them.
OPEN: Final = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning",
    "ignore::pytest.PytestUnhandledThreadExceptionWarning",
    "ignore:Kubernetes version",
    "ignore::ResourceWarning",
)


@OPEN
@pytest.mark.slow
@pytest.mark.parametrize("name", RECOVER)
def test_a_library_ends_with_the_state_of_the_server(base: tuple[ApiServer, Snapshot], name: str) -> None:
    @settings(max_examples=5, deadline=None)
    @given(steps=STEPS)
    def ends_with_it(steps: Sequence[Any]) -> None:
        check(base, name, steps)

    ends_with_it()


@OPEN
@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", RECOVER)
def test_who_recovers(base: tuple[ApiServer, Snapshot], name: str, scenario: str) -> None:
    assert survives(base, name, scenario, loops=True)[0]


def main() -> None:
    logging.disable(logging.CRITICAL)
    with ApiServer(tokens={TOKEN: MASTER}) as server:
        base = server, server.snapshot()
        for name in (*FOLLOWS, *INFORMERS):
            for loops in (False,) if name in INFORMERS else (False, True):
                row = []
                for scenario in SCENARIOS:
                    recovered, ended_by = survives(base, name, scenario, loops=loops)
                    row.append("yes" if recovered else f"no ({' '.join(ended_by.split())[:80]})")
                print(f"| {name}{' in a loop' if loops else ''} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
