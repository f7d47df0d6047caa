"""A call and its user."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import apiserver
from apiserver.load.offload import SERVER, Offload
from apiserver.meta.vocabulary import UserInfo
from tests.unit.endpoints.handlers import calls

_ASSIGNS_USER: Final = re.compile(r"\bcall\.(?:user|offload)\b[^=\n(]* = ")


def test_offloaded_work_is_charged_to_the_user(offload: Offload) -> None:
    call = calls.call("GET", "/api/v1/namespaces/a/configmaps", offload=offload)
    for name in ("alice", "jane"):
        call.set_user(UserInfo(name))
        assert (call.user.name, call.offload.user) == (name, name)
        assert call.offload.lanes is offload.lanes
    assert offload.user == SERVER


def test_the_user_is_set_together_with_what_depends_on_it() -> None:
    assert _ASSIGNS_USER.search("call.user, constraint = await check(call, wanted)")
    assert _ASSIGNS_USER.search("call.offload = call.offload.for_user(name)")
    root = Path(apiserver.__file__).parent
    assert [
        f"{path.relative_to(root)}: {found[0]}"
        for path in root.rglob("*.py")
        for found in _ASSIGNS_USER.finditer(path.read_text())
    ] == []
