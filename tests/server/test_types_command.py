"""`apiserver types generate` with a group and version of a running server."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from apiserver.cli import types_generate
from apiserver.cli.api_client import RequestFailed
from tests.support.api import Api
from tests.support.definitions import define, definition, new_group, version
from tests.support.eventually import until
from tests.support.server_process import ServerProcess
from tests.unit.types.code_generation.modules import imported

SIZE: Final = {"type": "integer", "minimum": 1, "default": 1}
SCHEMA: Final = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"x-size": SIZE}, "required": ["x-size"]}},
}


def generate(server: ServerProcess, source: str) -> int:
    return types_generate.run(["generate", source, "--as=msgspec", f"--kubeconfig={server.kubeconfig}"])


def test_the_types_of_a_group(server: ServerProcess, api: Api, capsys: pytest.CaptureFixture[str]) -> None:
    group = new_group()
    defined = define(api, definition(group, version(schema=SCHEMA)))
    until(lambda: api.get(f"/openapi/v3/apis/{group}/v1"), lambda answer: answer.status == 200, "published")
    assert generate(server, f"{group}/v1") == types_generate.DONE
    stored = defined.create("a", spec={"x-size": 5}).ok()
    with imported(capsys.readouterr().out) as module:
        found = msgspec.convert(stored, getattr(module, defined.kind))
        assert found.metadata.name == "a"
        assert found.spec.x_size == 5
        assert msgspec.to_builtins(found) == stored


def test_a_group_that_is_not_served(server: ServerProcess) -> None:
    """A name without a version may be meant as that of a file."""
    with pytest.raises(RequestFailed, match=r"^https://\S+ does not serve none\.example\.com/v1$"):
        generate(server, "none.example.com/v1")
    with pytest.raises(
        RequestFailed, match=r"^none is not a file or a built-in group: https://\S+ does not serve none$"
    ):
        generate(server, "none")
