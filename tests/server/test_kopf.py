"""An operator made with kopf works on custom resources, also after a restart of the server."""

from __future__ import annotations

import copy
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from apiserver.app.serving import pki
from tests.support.api import Answer, Api, until_status
from tests.support.eventually import WITHIN_S, eventually
from tests.support.required import missing
from tests.support.server_process import ServerProcess

OPERATOR: Final = Path(__file__).with_name("kopf_operator.py")
WEBHOOKS: Final = Path(__file__).with_name("kopf_webhooks.py")
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
ORDERS: Final = "/apis/shop.example.com/v1/namespaces/default/orders"
KIND: Final = {"apiVersion": "shop.example.com/v1", "kind": "Order"}

# As kopf calls a handler of one field.
COUNTED: Final = "counted/spec.count"

DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "orders.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "orders", "singular": "order", "kind": "Order"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["price", "count"],
                                "properties": {
                                    "price": {"type": "integer", "minimum": 0},
                                    "count": {"type": "integer", "minimum": 1},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@contextmanager
def operator(
    server: ServerProcess, directory: Path, program: Path = OPERATOR, **environment: str
) -> Iterator[None]:
    """Runs an operator. environment: what it is told beside where the server is."""
    if importlib.util.find_spec("kopf") is None:
        missing("kopf")
    log = directory / "operator.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "default", str(program)],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig), **environment},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
        try:
            yield
        except BaseException:
            print(log.read_text()[-4000:])
            raise
        finally:
            process.terminate()
            process.wait(WITHIN_S)


async def test_an_operator(tmp_path: Path) -> None:
    deleted = tmp_path / "deleted"
    deleted.mkdir()
    with ServerProcess(tmp_path / "data") as server:
        api = Api(server)
        api.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        api.post(DEFINITIONS, DEFINITION).ok()
        await eventually(lambda: api.get(ORDERS).status == 200)

        def order() -> Any:
            return api.get(f"{ORDERS}/a").ok()

        async def shows(check: Callable[[Any], object]) -> None:
            await eventually(lambda: check(order().get("status") or {}))

        with operator(server, tmp_path, DELETED=str(deleted)):
            api.post(ORDERS, {**KIND, "metadata": {"name": "a"}, "spec": {"price": 7, "count": 3}}).ok()
            await shows(lambda status: status.get("created") == {"total": 21})
            assert order()["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
            api.patch(f"{ORDERS}/a", {"spec": {"count": 5}}).ok()
            await shows(lambda status: status.get(COUNTED) == {"from": 3, "to": 5})
            await shows(lambda status: status.get("ticks", 0) >= 2)

            api.close()
            server.stop()
            server.start()
            api = Api(server)
            ticks = order()["status"]["ticks"]
            await shows(lambda status: status["ticks"] > ticks)
            api.patch(f"{ORDERS}/a", {"spec": {"count": 6}}).ok()
            await shows(lambda status: status[COUNTED] == {"from": 5, "to": 6})

            api.delete(f"{ORDERS}/a").ok()
            await eventually(lambda: api.get(f"{ORDERS}/a").status == 404)
            assert (deleted / "a").exists()
        api.close()


async def test_an_operator_with_admission_webhooks(tmp_path: Path) -> None:
    """kopf serves them, and registers them under a name of its own."""
    made = pki.ensure(tmp_path, ["127.0.0.1"])
    files = {"CERTIFICATE": made.serving_cert, "KEY": made.serving_key, "CA": made.ca_cert}
    schema: Any = copy.deepcopy(DEFINITION)
    schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["required"] = ["count"]
    with ServerProcess(tmp_path / "data") as server, Api(server) as api:
        api.post(DEFINITIONS, schema).ok()
        await eventually(lambda: api.get(ORDERS).status == 200)

        def post(name: str, **spec: int) -> Answer:
            return api.post(ORDERS, {**KIND, "metadata": {"name": name}, "spec": spec})

        with operator(server, tmp_path, WEBHOOKS, **{name: str(path) for name, path in files.items()}):
            # Before that, orders are stored as they are.
            for kind in ("mutating", "validating"):
                path = f"{REGISTRATIONS}/{kind}webhookconfigurations/auto.kopf.dev"
                until_status(200, lambda: api.get(path), f"{kind} webhooks")  # noqa: B023
            await eventually(lambda: post("dry", count=1000).status == 429)
            # One that came before the others were heeded is as it was sent.
            await eventually(
                lambda: api.delete(f"{ORDERS}/first") and "price" in post("first", count=1).ok()["spec"]
            )
            assert post("a", count=3).ok()["spec"] == {"count": 3, "price": 5}
            refused = post("b", count=101)
            assert (refused.status, "nobody needs so many" in refused.message) == (429, True)
            warned = post("c", count=60, price=0)
            assert (warned.status, warned.headers["warning"]) == (201, '299 - "that is a lot"')
            kept = api.delete(f"{ORDERS}/c")
            assert (kept.status, "a gift stays" in kept.message) == (500, True)
            assert api.delete(f"{ORDERS}/a").ok()
