"""The interface of runners, which call the functions of one extension."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from apiserver.extensions.hooks import Hook, Kind, Mode, OnError

_K = TypeVar("_K")

# The kinds of functions that a reload can add, change and remove. The others belong to controllers and
# handlers, which are built when the server starts.
RELOADED: Final = frozenset(
    {
        Kind.MUTATE,
        Kind.VALIDATE,
        Kind.CONVERT,
        Kind.AUTHENTICATE,
        Kind.AUTHORIZE,
        Kind.HEALTHZ,
        Kind.METRIC,
    }
)


class HookInfo(NamedTuple):
    """A hook as the server knows it.

    place: file and line. wants: the arguments that it takes after the object. options: see
    `extension.Extension`.
    """

    number: int
    kind: Kind
    name: str
    place: str
    mode: Mode
    wants: frozenset[str]
    timeout_s: float
    on_error: OnError
    inline: bool
    options: Mapping[str, Any]

    @classmethod
    def of(cls, number: int, document: Mapping[str, Any]) -> HookInfo:
        return cls(
            number,
            Kind(document["kind"]),
            document["name"],
            document["place"],
            Mode(document["mode"]),
            frozenset(document["wants"]),
            document["timeoutSeconds"],
            OnError(document["onError"]),
            document["inline"],
            document["options"],
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.place})"


class ExtensionInfo(NamedTuple):
    """An extension as the server knows it: see `extension.Extension.describe`."""

    name: str
    hooks: Sequence[HookInfo]
    definitions: Sequence[Mapping[str, Any]]
    resources: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> ExtensionInfo:
        hooks = [HookInfo.of(number, each) for number, each in enumerate(document["hooks"])]
        return cls(document["name"], hooks, document["definitions"], document["resources"])

    @property
    def has_event_loop(self) -> bool:
        """Whether functions can run at the same time in a worker, and so block each other."""
        return any(each.mode is not Mode.ALONE for each in self.hooks)

    def counterpart(self, other: ExtensionInfo, hook: HookInfo) -> HookInfo | None:
        """Returns the hook that has taken the place of one of another, older extension; None if none has."""
        mine = [each for each in self.hooks if (each.kind, each.name) == (hook.kind, hook.name)]
        index = other.place_of(hook)
        return mine[index] if index < len(mine) else None

    def place_of(self, hook: HookInfo) -> int:
        """Returns the index of a hook among those of its kind and name. Only their order tells them apart."""
        return sum((each.kind, each.name) == (hook.kind, hook.name) for each in self.hooks[: hook.number])

    def fixed_changes(self, old: ExtensionInfo) -> list[str]:
        """Returns what differs from an older extension and cannot change while the server runs."""
        found = [f"the name {old.name}"] if self.name != old.name else []
        for what, mine, others in (
            ("the definition", self.definitions, old.definitions),
            ("the virtual resource", self.resources, old.resources),
        ):
            named = [{each["metadata"]["name"]: each for each in documents} for documents in (mine, others)]
            found += [f"{what} {name}" for name in _different(*named)]
        functions = _different(self._fixed_hooks(), old._fixed_hooks())
        return found + [f"the function {name} ({kind})" for kind, name, _ in functions]

    def _fixed_hooks(self) -> dict[tuple[str, str, int], Mapping[str, Any]]:
        found: dict[tuple[str, str, int], Mapping[str, Any]] = {}
        for each in self.hooks:
            if each.kind not in RELOADED:
                same = sum(key[:2] == (each.kind, each.name) for key in found)
                found[each.kind, each.name, same] = each.options
        return found

    def of_kind(self, kind: Kind) -> Sequence[HookInfo]:
        return [each for each in self.hooks if each.kind is kind]


def _different(one: Mapping[_K, Any], other: Mapping[_K, Any]) -> list[_K]:
    """Returns the keys whose values differ, or that only one of two mappings has."""
    return [key for key in {**other, **one} if key not in one or key not in other or one[key] != other[key]]


class Failure(enum.StrEnum):
    """Why a call has failed, as in metrics."""

    ERROR = "error"
    TIMEOUT = "timeout"
    ENDED = "ended"
    NOT_RUNNING = "not_running"


class HookFailed(Exception):
    """A function has failed, was late, or could not be called; `on_error` decides what follows.

    The message names the function, and can be shown to clients.
    """

    def __init__(self, message: str, failure: Failure, traceback: str = "") -> None:
        super().__init__(message)
        self.failure, self.traceback = failure, traceback

    @classmethod
    def of(cls, hook: HookInfo, error: Mapping[str, Any]) -> HookFailed:
        """Returns the failure of a hook that has raised an error.

        error: as `outcomes.describe_error` makes it.
        """
        where = f" at {error['place']}" if isinstance(error.get("place"), str) else ""
        text = f"{hook} failed{where}: {error.get('message')}"
        return cls(text, Failure.ERROR, str(error.get("traceback", "")))


class WorkerEnd(NamedTuple):
    """The end of a worker.

    reason: names the function that has ended the worker, if it is known. hook: the name of that function,
    otherwise empty. delay_s: until the next worker starts.
    """

    reason: str
    hook: str
    delay_s: float


class CannotLoad(Exception):
    """An extension cannot be loaded. The message has the traceback of its module, if that is the reason."""


class EventSource(Protocol):
    """The events that a function yields for one watch: see `event_stream.EventStream`."""

    @property
    def result(self) -> Mapping[str, Any]: ...

    async def read(self) -> Sequence[Any]: ...

    def close(self) -> None: ...


class Runner(Protocol):
    """Calls the functions of one extension."""

    @property
    def info(self) -> ExtensionInfo: ...

    @property
    def functions(self) -> Sequence[Hook]:
        """The functions, if this process has imported them, by the index of their hooks; otherwise empty."""
        ...

    async def start(self) -> None:
        """Load the extension. Raises CannotLoad."""
        ...

    async def call(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> Mapping[str, Any]:
        """Returns the result of a hook, as `invocation.Call.result` makes it.

        The function may begin before this is awaited. call: a JSON object. timeout_s: less than that of the
        hook, if the caller has less time. Raises HookFailed.
        """
        ...

    @property
    def streams_open(self) -> int:
        """How many functions yield events, or are called for a watch and have not begun."""
        ...

    async def watch(self, hook: HookInfo, call: bytes, timeout_s: float | None = None) -> EventSource:
        """Call a function for a watch, and return its events once it has begun. call, timeout_s: as for
        `call`; to begin takes as long as another function may take.

        Raises HookFailed.
        """
        ...

    async def close(self) -> None: ...
