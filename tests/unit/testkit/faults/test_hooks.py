"""Faults are added to what other hooks do, not put in its place."""

from __future__ import annotations

from time import monotonic
from typing import Final

import pytest

from apiserver.app.hooks import Hooks
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.testkit.faults import FaultInjector
from apiserver.testkit.faults.hooks import with_faults


async def well() -> None:
    pass


@pytest.mark.parametrize("refuses", [True, False])
def test_what_other_hooks_do_is_done_as_well(refuses: bool) -> None:
    asked: list[str] = []

    def wrap(handle: Handler) -> Handler:
        asked.append("request")
        return handle

    def authenticate(chain: object) -> object:
        asked.append("authentication")
        return chain

    others = Hooks(
        authentication=authenticate,  # type: ignore[arg-type]
        authorized_request=wrap,
        refuses_handshake=lambda: refuses,
        readiness={"other": well},
        readiness_notes=lambda: ("a note",),
        debug_paths=lambda _: {"other": PATH},
    )
    both = with_faults(others, FaultInjector(monotonic), over_http=False)
    both.authentication(None)  # type: ignore[arg-type]
    assert both.authorized_request is not None
    both.authorized_request(None)  # type: ignore[arg-type]
    assert asked == ["authentication", "request"]
    assert both.refuses_handshake is not None
    assert both.refuses_handshake() is refuses
    assert both.readiness.keys() == {"other", "fault-injection"}
    assert both.readiness_notes()[0] == "a note"
    assert both.debug_paths(None) == {"other": PATH}


async def _nothing(_: ApiCall, __: str) -> None:
    pass


PATH: Final = _nothing
