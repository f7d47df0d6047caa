"""What other servers' answers say of the owners of objects."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from apiserver.controllers.garbage_collector.remote_owner_resolver import NamedOwner
from apiserver.controllers.garbage_collector.rules import OwnerState
from apiserver.endpoints.aggregation.extension_client import ExtensionResponse
from apiserver.endpoints.aggregation.owners import state_in

OWNER: Final = NamedOwner("g/v1", "Widget", "n", "w", "u")
NOT_FOUND: Final = {"kind": "Status", "reason": "NotFound", "details": {"name": "w"}, "code": 404}
DELETED: Final = {"uid": "u", "deletionTimestamp": "2020-01-01T00:00:00Z"}
FOREGROUND: Final = {"finalizers": ["foregroundDeletion"]}

STATES: Final[dict[str, tuple[int, Any, OwnerState]]] = {
    "there": (200, {"metadata": {"uid": "u"}}, OwnerState.SOLID),
    "another of its name": (200, {"metadata": {"name": "w", "uid": "v"}}, OwnerState.ABSENT),
    "not there": (404, NOT_FOUND, OwnerState.ABSENT),
    "being deleted": (200, {"metadata": DELETED}, OwnerState.SOLID),
    "waiting for its dependents": (200, {"metadata": {**DELETED, **FOREGROUND}}, OwnerState.WAITING),
    "to wait for them": (200, {"metadata": {"uid": "u", **FOREGROUND}}, OwnerState.SOLID),
}


@pytest.mark.parametrize(("status", "document", "state"), STATES.values(), ids=STATES)
def test_what_an_answer_says(status: int, document: Any, state: OwnerState) -> None:
    assert state_in(ExtensionResponse("https://x", status, {}, orjson.dumps(document)), OWNER) is state


NOTHING: Final[dict[str, tuple[int, bytes]]] = {
    "a path that is not served": (404, b"404 page not found"),
    "a failure": (500, orjson.dumps({**NOT_FOUND, "code": 500})),
    "no permission": (403, orjson.dumps({"kind": "Status", "reason": "Forbidden"})),
    "a type that is not served": (404, orjson.dumps({**NOT_FOUND, "details": {}})),
    "another object": (404, orjson.dumps({**NOT_FOUND, "details": {"name": "v"}})),
    "another 404": (404, orjson.dumps({"kind": "Status", "reason": "Gone"})),
    "no metadata": (200, b"{}"),
    "no uid": (200, b'{"metadata":{"uid":7}}'),
    "an empty uid": (200, b'{"metadata":{"name":"w","uid":""}}'),
    "an object of another name": (200, b'{"metadata":{"name":"v","uid":"v"}}'),
    "no object": (200, b"[]"),
    "nothing": (200, b""),
}


@pytest.mark.parametrize(("status", "body"), NOTHING.values(), ids=NOTHING)
def test_what_says_nothing(status: int, body: bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        state_in(ExtensionResponse("https://x", status, {}, body), OWNER)
