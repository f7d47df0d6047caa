"""The outcome of a call of a function: its result, or its error with the place where it was raised."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from typing import Any, Final

from apiserver.extensions.errors import ApiError, Denied
from apiserver.extensions.hooks import Kind
from apiserver.extensions.invocation import Call, HookCall, WrongResult
from apiserver.extensions.virtual_resources import VERBS

TRACEBACK_CHARACTERS_MAX: Final = 8_192
MESSAGE_CHARACTERS_MAX: Final = 1_024
_OWN_DIRECTORY: Final = Path(__file__).parent
_OWN: Final = (str(_OWN_DIRECTORY), str(_OWN_DIRECTORY.with_name("types")), "<frozen")
_DENIES: Final = frozenset({Kind.MUTATE, Kind.VALIDATE, Kind.AUTHENTICATE, Kind.AUTHORIZE, *VERBS})


def describe_error(error: BaseException) -> dict[str, Any]:
    """Returns an error in a hook as the server logs and reports it."""
    # It has a text for each error, also for one whose own text cannot be made.
    described = traceback.TracebackException.from_exception(error)
    message = f"{described}" if isinstance(error, Denied) else f"{type(error).__name__}: {described}"
    if isinstance(notes := getattr(error, "__notes__", ()), list):
        message += "".join(f" ({note})" for note in notes if isinstance(note, str))
    return {
        "message": _utf8(message[:MESSAGE_CHARACTERS_MAX]),
        "traceback": _utf8("".join(described.format())[-TRACEBACK_CHARACTERS_MAX:]),
        **_place(error),
    }


def _utf8(text: str) -> str:
    """Returns a text in which surrogates, which JSON cannot express, are escaped."""
    return text.encode(errors="backslashreplace").decode()


def _place(error: BaseException) -> dict[str, str]:
    """Returns the file and the line of the extension that raised an error, if one did."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if not is_own(each.filename)]
    return {"place": f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}"} if frames else {}


def is_own(filename: str) -> bool:
    """Whether a file belongs to this package or to `types`, and not to an extension."""
    return filename.startswith(_OWN)


def outcome(call: HookCall) -> dict[str, Any]:
    """Returns the result or the error of a call of a function that is not async."""
    try:
        return {"result": call.result(call.run())}
    except BaseException as error:
        return failure(call, error)


async def awaited_outcome(call: HookCall) -> dict[str, Any]:
    """Returns the result or the error of a call of an async function."""
    try:
        return {"result": call.result(await call.run())}
    except BaseException as error:
        return failure(call, error)


def failure(call: HookCall, error: BaseException) -> dict[str, Any]:
    """Returns the outcome of a call of a function that has raised an error, which may refuse the request."""
    if isinstance(call, Call) and call.kind in _DENIES:
        # The objects of a virtual resource may come from the server: so do its errors.
        is_refusal = isinstance(error, Denied) or call.kind in VERBS
        if is_refusal and (status := refusal_of(error)) is not None:
            return {"result": call.denied(status)}
    if call.kind is Kind.AUTHENTICATE:
        return {"error": _without_texts(error)}
    return {"error": describe_error(error)}


def refusal_of(error: BaseException) -> dict[str, Any] | None:
    """Returns the Status by which an error refuses a request; None if it does not."""
    if isinstance(error, Denied):
        return error.status()
    if isinstance(error, ApiError) and error.code:
        return {"message": error.message, "reason": error.reason, "code": error.code}
    return None


def _without_texts(error: BaseException) -> dict[str, Any]:
    """Returns an error of a function that has a token, which the text of the error may quote."""
    # The texts of WrongResult are those of this package, and name only types.
    text = f": {error}" if type(error) is WrongResult else ""
    return {"message": f"{type(error).__name__}{text}", **_place(error)}


def too_many_threads(most: int) -> dict[str, Any]:
    """Returns the outcome of a call for which there is no thread."""
    text = f"too many functions wait for the server: at most {most} at the same time"
    return {"error": {"message": text}}
