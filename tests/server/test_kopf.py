"""An operator made with kopf works on custom resources, also after a restart of the server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.api import Api
from tests.support.eventually import eventually
from tests.support.required import missing
from tests.support.server_process import ServerProcess

OPERATOR: Final = Path(__file__).with_name("kopf_operator.py")
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
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
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


@contextmanager
def operator(server: ServerProcess, deleted: Path) -> Iterator[None]:
    try:
        __import__("kopf")
    except ImportError:
        missing("kopf")
    log = deleted.with_name("operator.log")
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--standalone", "-n", "default", str(OPERATOR)],
            env={**os.environ, "KUBECONFIG": str(server.kubeconfig), "DELETED": str(deleted)},
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
            process.wait(20)


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

        with operator(server, deleted):
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
