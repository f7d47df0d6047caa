"""All pages of the console, on a server with something to see.

`python -m tests.console.tour` makes the pictures of the documentation.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.api import Api
from tests.support.chromium import Browser, Page, Visit, chromium
from tests.support.definitions import define, definition, version
from tests.support.eventually import until
from tests.support.server_process import ServerProcess

PICTURES: Final = Path(__file__).parents[2] / "docs" / "operating" / "console"
WIDTH: Final = 1040
HEIGHT: Final = 640
FLAGS: Final = ("--history", "--simulate-nodes=2", "--simulate-workloads", "--enable-fault-injection")

_LABELS: Final = {"app": "web"}
DEPLOYMENT: Final = {
    "metadata": {"name": "web", "labels": _LABELS},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": _LABELS},
        "template": {
            "metadata": {"labels": _LABELS},
            "spec": {
                "containers": [{"name": "nginx", "image": "nginx:1.27", "ports": [{"containerPort": 80}]}]
            },
        },
    },
}
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
WIDGET: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "description": "How many there are. At least one."},
                "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
            },
            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too many"}],
        }
    },
}


class Stop(NamedTuple):
    """A page. view: the fragment of its URL. sign: a text that is there when all of it is."""

    view: str
    sign: str


_WEB: Final = "#/object/apps/v1/deployments/default/web"
STOPS: Final[Mapping[str, Stop]] = {
    "types": Stop("#/types", "mutatingwebhookconfigurations"),
    "list": Stop("#/list/core/v1/pods?wide=1", "simulated-"),
    "overview": Stop(_WEB, "ReplicaSet web-"),
    "yaml": Stop(f"{_WEB}?tab=yaml", "progressDeadlineSeconds"),
    "fields": Stop(f"{_WEB}?tab=form", "Number of desired pods."),
    "history": Stop(f"{_WEB}?tab=history", "Undo this change…"),
    "edit": Stop("#/edit/apps/v1/deployments/default/web", "matchLabels"),
    "create": Stop("#/create/core/v1/configmaps?ns=default", "ConfigMap"),
    "changes": Stop("#/changes", "deployments default/web"),
    "access": Stop("#/access?verb=delete&resource=pods", "ClusterRoleBinding cluster-admin"),
    "requests": Stop("#/requests", "Clients"),
    "definitions": Stop("#/definitions", "ValidatingAdmissionPolicy"),
    "definition": Stop("#/definitions/example.com/v1/widgets", "Storage version"),
    "cel": Stop("#/cel", "bool"),
    "deprecations": Stop("#/deprecations", "Requests since"),
    "health": Stop("#/health", " ms"),
    "tests": Stop("#/tests", "simulated-0"),
}


def furnish(api: Api) -> None:
    """Creates the objects that the pages show."""
    define(api, definition("example.com", version(schema=WIDGET)))
    api.post("/apis/apps/v1/namespaces/default/deployments", DEPLOYMENT).ok()
    api.post(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}}
    ).ok()
    until(lambda: api.get(f"{DEPLOYMENTS}/web").ok(), lambda found: found["status"].get("readyReplicas") == 3)


async def show(visit: Visit, name: str) -> Page:
    """Shows a page, and returns it when all of it is there."""
    stop = STOPS[name]
    await visit.show(stop.view)
    await visit.page.locator("main").get_by_text(stop.sign).first.wait_for()
    return visit.page


async def make_pictures(browser: Browser, server: ServerProcess, directory: Path) -> None:
    """Makes a picture of each page of a server with something to see."""
    async with Visit(browser, server, viewport={"width": WIDTH, "height": HEIGHT}) as visit:
        await visit.log_in()
        for name in STOPS:
            page = await show(visit, name)
            await page.locator(".connection.live").wait_for()
            await visit.picture(directory / f"{name}.png")


async def _main() -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        ServerProcess(Path(directory) / "data", *FLAGS) as server,
        Api(server) as api,
    ):
        furnish(api)
        async with chromium() as browser:
            await make_pictures(browser, server, PICTURES)


if __name__ == "__main__":
    asyncio.run(_main())
