"""The objects of every namespace, which controllers of kube-controller-manager create.

Source: its serviceaccount and root-ca-certificate-publisher controllers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.api import Answer, Api
from tests.support.eventually import eventually
from tests.support.server_process import ServerProcess

CONTENTS: Final = {
    "the account of pods that name none": "serviceaccounts/default",
    "the certificates by which pods know the server": "configmaps/kube-root-ca.crt",
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Api]]:
    """A server with all controllers."""
    data_dir = tmp_path_factory.mktemp("full") / "data"
    with ServerProcess(data_dir, "--controllers=*") as server, Api(server) as api:
        yield server, api


async def found(api: Api, path: str) -> Answer:
    def get() -> Answer | None:
        answer = api.get(path)
        return answer if answer.status == 200 else None

    answer = await eventually(get)
    assert answer is not None
    return answer


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
@pytest.mark.parametrize("namespace", ["default", "kube-system"])
async def test_namespaces_that_are_always_there_have_it(
    full: tuple[ServerProcess, Api], namespace: str, content: str
) -> None:
    await found(full[1], f"/api/v1/namespaces/{namespace}/{content}")


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
async def test_a_new_namespace_gets_it_and_gets_it_back(
    full: tuple[ServerProcess, Api], content: str
) -> None:
    _, api = full
    name = api.post("/api/v1/namespaces", {"metadata": {"generateName": "new-"}}).ok()["metadata"]["name"]
    path = f"/api/v1/namespaces/{name}/{content}"
    first = (await found(api, path)).json["metadata"]["uid"]
    api.delete(path).ok()

    def get() -> bool:
        answer = api.get(path)
        return answer.status == 200 and answer.json["metadata"]["uid"] != first

    await eventually(get)


async def test_the_certificates_are_set_right(full: tuple[ServerProcess, Api]) -> None:
    server, api = full
    path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"
    certificates = server.ca_path.read_text()
    assert (await found(api, path)).json["data"] == {"ca.crt": certificates}
    api.patch(path, {"data": {"ca.crt": "another", "more": "x"}}).ok()
    await eventually(lambda: api.get(path).json["data"] == {"ca.crt": certificates})


async def test_a_namespace_that_goes_is_not_filled_again(full: tuple[ServerProcess, Api]) -> None:
    _, api = full
    api.post("/api/v1/namespaces", {"metadata": {"name": "going"}}).ok()
    await found(api, "/api/v1/namespaces/going/serviceaccounts/default")
    api.delete("/api/v1/namespaces/going").ok()
    await eventually(lambda: api.get("/api/v1/namespaces/going").status == 404)


async def test_none_without_their_controllers(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data", "--controllers=*,-serviceaccount-controller") as server,
        Api(server) as api,
    ):
        await found(api, "/api/v1/namespaces/default/configmaps/kube-root-ca.crt")
        assert api.get("/api/v1/namespaces/default/serviceaccounts").ok()["items"] == []
