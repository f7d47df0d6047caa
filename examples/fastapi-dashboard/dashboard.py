"""A dashboard of Deployments that uses one watch for any number of browsers."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from fastapi import FastAPI
from fastapi.responses import FileResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent
from kubernetes_asyncio import client, config, watch

RETRY_S = 1
# If a browser has more unread changes, it gets all Deployments again.
UNREAD_MAX = 1000
PAGE = Path(__file__).with_name("dashboard.html")

log = logging.getLogger("uvicorn.error")


class Deployments:
    """Contains the Deployments of a cluster, and an event queue for each browser."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._browsers: set[asyncio.Queue[ServerSentEvent]] = set()

    @contextmanager
    def follow(self) -> Iterator[asyncio.Queue[ServerSentEvent]]:
        """Yields a queue. The first event contains all Deployments, and later events contain changes."""
        queue: asyncio.Queue[ServerSentEvent] = asyncio.Queue(UNREAD_MAX)
        queue.put_nowait(self._all())
        self._browsers.add(queue)
        try:
            yield queue
        finally:
            self._browsers.remove(queue)

    def replace(self, deployments: list[dict[str, Any]]) -> None:
        self._rows = {each["metadata"]["uid"]: row(each) for each in deployments}
        self._send(self._all())

    def apply(self, change: str, deployment: dict[str, Any]) -> None:
        """Applies a watch event, whose type is ADDED, MODIFIED or DELETED."""
        new = row(deployment)
        if change == "DELETED":
            self._rows.pop(new["uid"], None)
        elif self._rows.get(new["uid"]) != new:
            self._rows[new["uid"]] = new
        else:
            return
        self._send(ServerSentEvent(event=change.lower(), data=new))

    def _all(self) -> ServerSentEvent:
        return ServerSentEvent(event="all", data=list(self._rows.values()))

    def _send(self, event: ServerSentEvent) -> None:
        for queue in self._browsers:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(self._all())
            else:
                queue.put_nowait(event)


def row(deployment: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a Deployment that the page shows."""
    metadata, spec, status = deployment["metadata"], deployment["spec"], deployment.get("status", {})
    return {
        "uid": metadata["uid"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "desired": spec["replicas"],
        "ready": status.get("readyReplicas", 0),
    }


async def list_and_watch(api: client.ApiClient, deployments: Deployments) -> None:
    """Lists and then watches Deployments. Ends when a new list is necessary."""
    read = client.AppsV1Api(api).list_deployment_for_all_namespaces
    listed = await read()
    deployments.replace(api.sanitize_for_serialization(listed.items))
    async with watch.Watch() as changes:
        stream = changes.stream(
            read, resource_version=listed.metadata.resource_version, allow_watch_bookmarks=True
        )
        async for event in stream:
            if event["type"] != "BOOKMARK":
                deployments.apply(event["type"], event["raw_object"])


async def keep_current(api: client.ApiClient, deployments: Deployments) -> None:
    while True:
        try:
            await list_and_watch(api, deployments)
        except (client.ApiException, aiohttp.ClientError, OSError) as error:
            log.warning("watch failed, listing again: %s", error)
        await asyncio.sleep(RETRY_S)


async def cluster() -> client.Configuration:
    """Returns the configuration from KUBECONFIG, or from the cluster that runs this program."""
    configuration = client.Configuration()
    await config.load_config(config_file=os.environ.get("KUBECONFIG"), client_configuration=configuration)
    return configuration


def create_app(configuration: client.Configuration | None = None) -> FastAPI:
    deployments = Deployments()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with client.ApiClient(configuration or await cluster()) as api:
            watching = asyncio.create_task(keep_current(api, deployments))
            yield
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def page() -> FileResponse:
        return FileResponse(PAGE)

    @app.get("/events", response_class=EventSourceResponse)
    async def events() -> AsyncIterator[ServerSentEvent]:
        with deployments.follow() as queue:
            while True:
                yield await queue.get()

    return app
