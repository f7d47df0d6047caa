"""The functions of an extension, with what their decorators say about them."""

from __future__ import annotations

import enum
import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from apiserver.extensions.errors import InvalidExtension


class Kind(enum.StrEnum):
    """What a function does for the server."""

    MUTATE = "mutate"
    VALIDATE = "validate"
    CONVERT = "convert"
    RECONCILE = "reconcile"
    AUTHENTICATE = "authenticate"
    AUTHORIZE = "authorize"
    HEALTHZ = "healthz"
    LIST = "list"
    GET = "get"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    WATCH = "watch"
    METRIC = "metric"

    @property
    def has_subject(self) -> bool:
        """Whether a function gets something first: an object, a token, or the attributes of a request."""
        return self not in _WITHOUT_SUBJECT


_WITHOUT_SUBJECT: Final = frozenset({Kind.HEALTHZ, Kind.LIST, Kind.GET, Kind.DELETE, Kind.WATCH, Kind.METRIC})


class Mode(enum.StrEnum):
    """How a worker runs a function.

    ALONE: on the event loop, nothing else at the same time, as it is not async. THREAD: in a thread, as it
    waits for the server. TASK: as a task, with others.
    """

    ALONE = "alone"
    THREAD = "thread"
    TASK = "task"


# How many functions of an extension wait for the server at the same time. As their requests may call other
# functions, which need further threads, more are refused: none of them could go on.
THREADS_MAX: Final = 128


# A function that takes one of these arguments knows whether a request is a dry run.
SHOWS_DRY_RUN: Final = frozenset({"dry_run", "request"})


class OnError(enum.StrEnum):
    """What happens to a write if a function fails or is late.

    FAIL: the write fails. IGNORE: it goes on as if the function did not exist. WARN: as IGNORE, and the
    client gets a warning.
    """

    FAIL = "fail"
    IGNORE = "ignore"
    WARN = "warn"


class Parameters(NamedTuple):
    """The parameters of a function: see `parameters`.

    subject: the name of the first one, if it must be passed by name. subject_type, old_type: the classes of
    which the function gets instances; None if it gets documents. arguments: the names of the arguments, such
    as `user`, by the names of the parameters.
    """

    subject: str | None = None
    subject_type: Any = None
    old_type: Any = None
    arguments: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Hook:
    """One function of an extension.

    function: what is called, with the arguments for its parameters.
    inline: whether it runs in the server's process.
    options: what only this kind of function has, such as the resources of a validation; can be written as
        JSON.
    """

    kind: Kind
    function: Callable[..., Any]
    parameters: Parameters
    timeout_s: float
    on_error: OnError
    inline: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def mode(self) -> Mode:
        if is_async(self.function):
            return Mode.TASK
        # A reconciliation may take long.
        return Mode.THREAD if self.kind is Kind.RECONCILE or self.uses_api else Mode.ALONE

    @property
    def uses_api(self) -> bool:
        """Whether the function gets a client of the server."""
        return "api" in self.parameters.arguments.values()

    @property
    def wants(self) -> list[str]:
        """The names of the arguments that the function takes after the object."""
        return sorted({*self.parameters.arguments.values()})

    @property
    def place(self) -> str:
        return place_of(self.function)

    def describe(self) -> dict[str, Any]:
        """Returns the function's description for the server, which can be written as JSON."""
        return {
            "kind": str(self.kind),
            "name": self.name,
            "place": self.place,
            "mode": str(self.mode),
            "wants": self.wants,
            "timeoutSeconds": self.timeout_s,
            "onError": str(self.on_error),
            "inline": self.inline,
            "options": dict(self.options),
        }


def named(function: Callable[..., Any], *, yields: bool = False) -> Callable[..., Any]:
    """Returns a function if it can be a hook. yields: whether it must be an async generator.

    Raises InvalidExtension.
    """
    if not callable(function) or not hasattr(function, "__name__"):
        raise InvalidExtension(f"{function!r} is not a function")
    bare = plain(function)
    if yields and not inspect.isasyncgenfunction(bare):
        raise InvalidExtension(f"{function.__name__} must be an async generator")
    if not yields and (inspect.isasyncgenfunction(bare) or inspect.isgeneratorfunction(bare)):
        raise InvalidExtension(f"{function.__name__} is a generator, and must be a function")
    return function


def is_async(function: Callable[..., Any]) -> bool:
    bare = plain(function)
    return inspect.iscoroutinefunction(bare) or inspect.isasyncgenfunction(bare)


def place_of(function: Callable[..., Any]) -> str:
    """Returns the file and the line in which a function is defined, separated by a colon."""
    code = getattr(plain(function), "__code__", None)
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}" if code is not None else "?"


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function without what wraps it."""
    found: Callable[..., Any] = inspect.unwrap(_plain(function))
    return found


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return function
