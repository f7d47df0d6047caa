"""Reads the messages of the clients of /console/watches."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

# JavaScript has no greater integers.
ID_MAX: Final = 2**53 - 1
DEFAULT_ACCEPT: Final = "application/json"
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")


class BrokenProtocol(Exception):
    """A client has sent what is no message of the protocol. The text is the reason of the closing frame."""


class Subscribe(NamedTuple):
    """Begin a watch. path: with its query. accept: the media types of its events."""

    id: int
    path: str
    accept: str


class Unsubscribe(NamedTuple):
    """End a watch."""

    id: int


class Renew(NamedTuple):
    """Use another bearer token for later watches, and when the client is authenticated again."""

    token: str


ClientMessage: TypeAlias = Subscribe | Unsubscribe | Renew


def read_message(text: str) -> ClientMessage:
    """Reads a message. What `path` and `accept` contain is not checked. Raises BrokenProtocol."""
    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise BrokenProtocol("a message is not JSON") from None
    if not isinstance(document, dict) or len(document) != 1:
        raise BrokenProtocol("a message must be an object with one field")
    ((name, value),) = document.items()
    if name == "token":
        if not isinstance(value, str) or not _TOKEN.fullmatch(value):
            raise BrokenProtocol("token: must be a bearer token")
        return Renew(value)
    if name == "subscribe":
        fields = _fields(name, value, {"id", "path", "accept"})
        path, accept = fields.get("path"), fields.get("accept", DEFAULT_ACCEPT)
        if not isinstance(path, str) or not isinstance(accept, str):
            raise BrokenProtocol("subscribe: path and accept must be strings")
        return Subscribe(_id(name, fields), path, accept)
    if name == "unsubscribe":
        return Unsubscribe(_id(name, _fields(name, value, {"id"})))
    raise BrokenProtocol("a message must be subscribe, unsubscribe or token")


def _fields(name: str, value: object, known: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BrokenProtocol(f"{name}: must be an object")
    if not value.keys() <= known:
        raise BrokenProtocol(f"{name}: has unknown fields")
    return value


def _id(name: str, fields: dict[str, Any]) -> int:
    number = fields.get("id")
    # A bool is an int, too.
    if type(number) is not int or not 0 < number <= ID_MAX:
        raise BrokenProtocol(f"{name}: id must be an integer from 1 to 2^53-1")
    return number
