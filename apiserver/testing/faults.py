"""The faults that tests inject into a server: `Faults` is the public class, the others implement it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias, TypeVar

from apiserver.testing.errors import RequestFailed
from apiserver.testing.runners import ServerThread
from apiserver.testkit.faults import Effect, Fault, FaultInjector, InvalidFault, Match
from apiserver.testkit.faults.documents import EFFECTS, parse, request_document
from apiserver.testkit.faults.effects import text_of

T = TypeVar("T")

_PATH: Final = "/debug/faults"
_ANY: Final = Match()


class InjectedFault:
    """A fault that was injected into a server. If you use the fault as a context manager, the fault is
    cleared at the end of the `with` block.
    """

    def __init__(self, faults: FaultSource, state: FaultState) -> None:
        self._faults, self._last = faults, state

    @property
    def id(self) -> str:
        """The ID of the fault, for use in the URL path `/debug/faults/ID`."""
        return self._last.id

    @property
    def effect(self) -> Effect:
        """The fault's effect."""
        return self._last.effect

    @property
    def match(self) -> Match:
        """The requests that the fault affects."""
        return self._last.match

    @property
    def times(self) -> int | None:
        """The maximum number of times that the fault happens, or None if there is no maximum."""
        return self._last.times

    @property
    def hits(self) -> int:
        """The number of times that the fault has happened.

        Raises ServerStopped if the server is not running.
        """
        self._last = self._faults.find(self._last.id) or self._last
        return self._last.hits

    def clear(self) -> None:
        """Clears the fault, or does nothing if the fault is already cleared. Raises ServerStopped if the
        server is not running.
        """
        self._last = self._faults.clear(self._last.id) or self._last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __repr__(self) -> str:
        match = f", {text_of(self.match)}" if self.match != _ANY else ""
        times = f", times={self.times}" if self.times is not None else ""
        return f"InjectedFault({text_of(self.effect)}{match}{times})"


class FaultState(NamedTuple):
    """The state of a fault."""

    id: str
    effect: Effect
    match: Match
    times: int | None
    hits: int


class Faults:
    """The faults that are injected into one server. You can call this class's methods from any thread. All
    methods raise ServerStopped if the server is not running.
    """

    def __init__(self, source: FaultSource) -> None:
        self._source = source
        self._expected: dict[str, InjectedFault] = {}

    def inject(
        self, effect: Effect, match: Match = _ANY, *, times: int | None = None, must_hit: bool = True
    ) -> InjectedFault:
        """Injects a fault. The fault affects new requests and open watches.

        effect: an instance of one of the classes in the "Effects of faults" section.
        match: the requests that the fault affects. By default, the fault affects all requests except those
            that the `ApiServer` methods send.
        times: the maximum number of times that the fault happens. By default, there is no maximum.
        must_hit: if True, the pytest plugin fails the test if the fault never happens. See `never_hit()`.
        Raises InvalidFault if the fault is invalid, and TooManyFaults if the server already has 1,000 faults.
        """
        _require_fault(effect, match)
        injected = InjectedFault(self._source, self._source.inject(effect, match, times))
        if must_hit:
            self._expected[injected.id] = injected
        return injected

    def list(self) -> Sequence[InjectedFault]:
        """Returns all faults that have not been cleared, in the order in which they were injected."""
        return [InjectedFault(self._source, state) for state in self._source.all()]

    def clear(self) -> None:
        """Clears all faults."""
        for state in self._source.clear_all():
            if (injected := self._expected.get(state.id)) is not None:
                injected._last = state

    def never_hit(self) -> Sequence[InjectedFault]:
        """Returns the faults that were injected with `must_hit=True` but never happened. Each call checks
        only faults that were injected after the previous call.

        The pytest plugin calls this method after each test, and fails the test if the method returns any
        faults.
        """
        expected, self._expected = self._expected, {}
        return [injected for injected in expected.values() if not injected.hits]


class LocalFaults:
    """The faults of a server in this process. thread: runs the server; raises ServerStopped."""

    def __init__(self, injector: FaultInjector, thread: Callable[[str], ServerThread]) -> None:
        self._injector, self._thread = injector, thread

    def inject(self, effect: Effect, match: Match, times: int | None) -> FaultState:
        return self._call("faults.inject", lambda: _state(self._injector.inject(effect, match, times)))

    def find(self, name: str) -> FaultState | None:
        return self._call("faults", lambda: _state_or_none(self._injector.find(int(name))))

    def all(self) -> Sequence[FaultState]:
        return self._call("faults.list", lambda: [_state(fault) for fault in self._injector])

    def clear(self, name: str) -> FaultState | None:
        return self._call("faults.clear", lambda: _state_or_none(self._injector.clear(int(name))))

    def clear_all(self) -> Sequence[FaultState]:
        return self._call("faults.clear", lambda: [_state(fault) for fault in self._injector.clear_all()])

    def _call(self, asked: str, act: Callable[[], T]) -> T:
        """Call a function in the thread of the server's event loop."""

        async def run() -> T:
            return act()

        return self._thread(asked).call(run, asked)


class RemoteFaults:
    """The faults of a server in another process. request: sends a request as the administrator."""

    def __init__(self, request: Callable[[str, str, Any], tuple[int, Any]]) -> None:
        self._request = request

    def inject(self, effect: Effect, match: Match, times: int | None) -> FaultState:
        return _read(self._ask("POST", "", request_document(effect, match, times)))

    def find(self, name: str) -> FaultState | None:
        code, document = self._request("GET", f"{_PATH}/{name}", None)
        return _read(document) if code == 200 else None

    def all(self) -> Sequence[FaultState]:
        return [_read(document) for document in self._ask("GET", "")["faults"]]

    def clear(self, name: str) -> FaultState | None:
        code, document = self._request("DELETE", f"{_PATH}/{name}", None)
        return _read(document) if code == 200 else None

    def clear_all(self) -> Sequence[FaultState]:
        return [_read(document) for document in self._ask("DELETE", "")["faults"]]

    def compact(self) -> int:
        """Compacts the server's history, and returns the revision. Raises RequestFailed."""
        return int(self._ask("POST", "/compact")["resourceVersion"])

    def _ask(self, method: str, rest: str, body: Any = None) -> Any:
        """Sends a request about faults."""
        code, answer = self._request(method, f"{_PATH}{rest}", body)
        if code >= 300:
            causes = (answer.get("details") or {}).get("causes") if isinstance(answer, dict) else None
            if causes:
                raise InvalidFault(causes[0]["field"], causes[0]["message"])
            raise RequestFailed(f"{method} {_PATH}{rest}", code, answer)
        return answer


FaultSource: TypeAlias = LocalFaults | RemoteFaults


def _require_fault(effect: Any, match: Any) -> None:
    """Checks that a fault is valid."""
    if not isinstance(effect, Effect):
        raise InvalidFault("effect", f"must be one of {', '.join(EFFECTS)}, not {effect!r}")
    if not isinstance(match, Match):
        raise InvalidFault("match", f"must be a Match, not {match!r}")


def _state(fault: Fault) -> FaultState:
    return FaultState(str(fault.id), fault.effect, fault.match, fault.times, fault.hits)


def _state_or_none(fault: Fault | None) -> FaultState | None:
    return None if fault is None else _state(fault)


def _read(document: dict[str, Any]) -> FaultState:
    said = {name: value for name, value in document.items() if name not in ("id", "hits")}
    asked = parse(said)
    return FaultState(document["id"], asked.effect, asked.match, asked.times, document["hits"])
