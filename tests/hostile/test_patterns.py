"""Regular expressions that take long to compile hold up nobody, wherever they come from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.hostile.support import longest_turn
from tests.support.api import Api
from tests.support.definitions import DEFINITIONS, define, definition, new_group, version
from tests.support.fixtures import server_with
from tests.support.processor import slowness
from tests.support.server_process import ServerProcess

TURN_MAX_S: Final = 0.05
TEXT: Final = {"type": "string"}
# RE2 by itself takes quadratic time for the number of copies: a minute for these.
COPIES: Final = "a{0,1000}" * 100
# Allowed, but there are enough of them to take half a second.
SOME_MILLISECONDS: Final = [rf"^\pL{{0,20}}[{number}]?$" for number in range(100, 160)]


server = server_with()


def schema(properties: dict[str, Any], *rules: str) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": "object", "properties": properties}
    if rules:
        spec["x-kubernetes-validations"] = [{"rule": rule} for rule in rules]
    return {"type": "object", "properties": {"spec": spec}}


REFUSED: Final = {
    "of a schema": (schema({"a": {**TEXT, "pattern": COPIES}}), "expression too large"),
    "of a rule": (schema({"a": TEXT}, f"self.a.matches('{COPIES}')"), "invalid matches argument"),
}


@pytest.mark.parametrize(("wanted", "message"), REFUSED.values(), ids=REFUSED)
def test_patterns_of_many_copies_are_refused_at_once(api: Api, wanted: dict[str, Any], message: str) -> None:
    with longest_turn(api) as turn:
        answer = api.post(DEFINITIONS, definition(new_group(), version(schema=wanted)))
    assert answer.status == 422
    assert message in answer.message
    assert turn.thread_cpu_s <= TURN_MAX_S


@pytest.mark.slow
def test_patterns_that_rules_take_from_objects_cost_what_compiling_them_takes(
    server: ServerProcess, api: Api
) -> None:
    patterns = {"type": "array", "maxItems": 1_000, "items": {"type": "string", "maxLength": 30}}
    rule = "self.patterns.all(p, !'a'.matches(p))"
    defined = define(api, definition(new_group(), version(schema=schema({"patterns": patterns}, rule))))
    assert defined.create("few", spec={"patterns": [r"b{1,63}", r"\pN{1,8}"]}).status == 201
    before, slower = server.cpu_s, slowness()
    many = [rf"a{{0,999}}b{{0,999}}x{{{n}}}" for n in range(1, 1_000)]
    with longest_turn(api) as turn:
        answer = defined.create("many", spec={"patterns": many})
    assert answer.status == 422
    assert "cost" in answer.message
    # Usually it is half of that.
    assert (server.cpu_s - before) / max(slower, slowness()) < 15
    assert turn.thread_cpu_s <= TURN_MAX_S


@pytest.mark.slow
def test_patterns_of_a_small_definition_are_compiled_beside_the_loop(tmp_path: Path) -> None:
    """Also by a server that has not checked it: one that starts later, or another on the same store."""
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        fields = {f"f{n}": {**TEXT, "pattern": pattern} for n, pattern in enumerate(SOME_MILLISECONDS)}
        defined = define(api, definition(new_group(), version(schema=schema(fields))))
        server.stop()
        server.start()
        api = Api(server)
        defined.api = api
        began = time.monotonic()
        with longest_turn(api) as turn:
            assert defined.create("a", spec=dict.fromkeys(fields, "a")).status == 201
        assert turn.thread_cpu_s <= TURN_MAX_S, time.monotonic() - began
        api.close()
