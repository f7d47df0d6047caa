"""What deleted definitions were is not kept: to create definitions and delete them takes up no memory."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from apiserver.app import App
from apiserver.cli.command_line import parse
from apiserver.registry.served_resource import ResourceTable, ServedResource
from tests.support.api import Api
from tests.support.definitions import Defined, define, definition, new_group
from tests.support.eventually import WITHIN_S, until
from tests.support.server_process import TOKENS, ServerProcess

COUNT: Final = 3
OPENAPI: Final = ("/openapi/v2", "/openapi/v3")
AGGREGATED: Final = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
POLICY: Final[dict[str, Any]] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "a"},
    "spec": {
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["CREATE"]}
            ]
        },
        "validations": [{"expression": "true"}],
    },
}
BINDING: Final[dict[str, Any]] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "a"},
    "spec": {
        "policyName": "a",
        "validationActions": ["Deny"],
        "paramRef": {"name": "a", "namespace": "default", "parameterNotFoundAction": "Allow"},
    },
}


@contextmanager
def server_in_this_process(directory: Path) -> Iterator[Api]:
    """Run a server in a thread, so that the test sees which of its objects are alive."""
    where = ServerProcess(directory / "data")
    tokens = directory / "tokens.csv"
    tokens.write_text(TOKENS)
    tokens.chmod(0o600)
    config = parse(
        [f"--data-dir={where.data_dir}", "--secure-port=0", f"--token-auth-file={tokens}", "--controllers=-*"]
    )
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        app = App(config)

        def on_ready(url: str, _: Path) -> None:
            where.url = url
            ready.set()

        running = asyncio.create_task(app.run(on_ready))
        await asyncio.to_thread(stop.wait)
        app.stop()
        await running

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(WITHIN_S)
        with closing(Api(where)) as api:
            yield api
    finally:
        stop.set()
        thread.join()


def alive() -> tuple[int, int]:
    """Returns how many tables of resources, and custom resources in any, are still there."""
    gc.collect()
    found = gc.get_objects()
    tables = sum(type(each) is ResourceTable for each in found)
    return tables, sum(type(each) is ServedResource and each.is_custom for each in found)


def use(defined: Defined) -> None:
    """Have all be derived that anybody derives from what is served."""
    api = defined.api
    defined.create("a", spec={"a": "b"}).ok()
    for path in ("/api", "/apis", f"/apis/{defined.group}", f"/apis/{defined.group}/v1"):
        api.get(path).ok()
    for path in ("/api", "/apis"):
        api.get(path, headers=AGGREGATED).ok()
    for path in OPENAPI:
        api.get(path).ok()
    api.get(f"/openapi/v3/apis/{defined.group}/v1").ok()
    api.delete(f"{defined.objects()}/a").ok()


def test_nothing_holds_on_to_definitions_that_are_gone(tmp_path: Path) -> None:
    with server_in_this_process(tmp_path) as api:
        gc.unfreeze()  # what the server has frozen would not be seen
        tables, _ = alive()
        group = "/apis/admissionregistration.k8s.io/v1"
        api.post(f"{group}/validatingadmissionpolicies", POLICY).ok()
        api.post(f"{group}/validatingadmissionpolicybindings", BINDING).ok()
        all_defined = [define(api, definition(new_group())) for _ in range(COUNT)]
        for each in all_defined:
            use(each)
        assert alive()[1] >= COUNT
        for each in all_defined:
            api.delete(each.path).ok()
        # Nobody is asked for anything that would have them look at the new table.
        # The last answer may be held until the next one.
        until(alive, lambda found: found[0] == tables and found[1] <= 1, "only what is served now is alive")
