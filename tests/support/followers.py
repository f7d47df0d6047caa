"""What follows the ConfigMaps of a namespace over a watch: by hand, and with client libraries as they are.

A follower keeps the resourceVersions of the objects by their names, as an informer keeps the objects. It runs
in a thread. By itself it lists, then watches; in a loop, it does so again whenever the watch has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import logging
import ssl
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from apiserver.app.serving import pki_files
from apiserver.testing import ApiServer
from tests.support.required import library

NAMESPACE: Final = "default"
CONFIG_MAPS: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
# Between a watch that has ended and the next list.
PAUSE_S: Final = 0.02
# A watch that is silent for so long is given up by a client that has a bound for that.
READ_TIMEOUT_S: Final = 30.0


class Change(NamedTuple):
    """An event. version: None if the object is gone."""

    name: str
    version: str | None


class Access(NamedTuple):
    """How a follower reaches the server: over HTTPS, with a bearer token."""

    url: str
    ca: Path
    token: str
    kubeconfig: Path

    @classmethod
    def to(cls, server: ApiServer, token: str) -> Access:
        """Returns the access by a token of the server's."""
        directory = Path(tempfile.mkdtemp(dir=server.ca.parent))
        kubeconfig = directory / "kubeconfig"
        written = pki_files.kubeconfig(
            server.url, server.ca.read_bytes(), {"token": token}, namespace=NAMESPACE
        )
        kubeconfig.write_bytes(written)
        return cls(server.url, server.ca, token, kubeconfig)


class WatchFailed(Exception):
    """The server has sent an ERROR event, or another answer than 200."""


# Yields first what a list returned, a mapping, if there is a list; then each change of the watch.
Follow = Callable[[Access], Iterator[Mapping[str, str] | Change]]


class Follower:
    """Runs in a thread until `stop`. ended_by: what has ended it, if it has ended by itself."""

    def __init__(self, follow: Follow, access: Access, *, loops: bool) -> None:
        self._follow, self._access, self._loops = follow, access, loops
        self._state: dict[str, str] = {}
        self._stopping = threading.Event()
        self.ended_by = ""
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._thread.start()

    @property
    def state(self) -> dict[str, str]:
        return dict(self._state)

    @property
    def is_over(self) -> bool:
        """Whether it has ended by itself."""
        return not self._thread.is_alive()

    def stop(self, within_s: float = 10.0) -> None:
        """Have it stop, once the server has."""
        self._stopping.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                for found in self._follow(self._access):
                    if self._stopping.is_set():
                        return
                    self._take(found)
                self.ended_by = "the end of the watch"
            except Exception as error:
                self.ended_by = f"{type(error).__name__}: {error}"
            if not self._loops:
                return
            self._stopping.wait(PAUSE_S)

    def _take(self, found: Mapping[str, str] | Change) -> None:
        if not isinstance(found, Change):
            self._state = dict(found)
        elif found.version is None:
            self._state.pop(found.name, None)
        else:
            self._state[found.name] = found.version


def change_of(kind: str, metadata: Mapping[str, Any]) -> Change:
    return Change(metadata["name"], None if kind == "DELETED" else metadata["resourceVersion"])


# ---- by hand


def by_hand(access: Access) -> Iterator[Mapping[str, str] | Change]:
    """List, then watch from there, as client-go's reflector does; a watch that ends cleanly goes on."""
    context = ssl.create_default_context(cafile=access.ca)
    headers = {"Authorization": f"Bearer {access.token}", "User-Agent": "by-hand"}

    @contextlib.contextmanager
    def get(target: str) -> Iterator[http.client.HTTPResponse]:
        """Raises WatchFailed."""
        host = urlsplit(access.url).netloc
        connection = http.client.HTTPSConnection(host, context=context, timeout=READ_TIMEOUT_S)
        with contextlib.closing(connection):
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            if response.status != 200:
                raise WatchFailed(f"status {response.status}")
            yield response

    with get(CONFIG_MAPS) as response:
        listed = orjson.loads(response.read())
    yield {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
    version = listed["metadata"]["resourceVersion"]
    while True:
        target = f"{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
        with get(target) as response:
            while line := response.readline():
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise WatchFailed(event["object"]["reason"])
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield change_of(event["type"], event["object"]["metadata"])


# ---- client libraries


def kubernetes_watch(access: Access) -> Iterator[Mapping[str, str] | Change]:
    kubernetes = library("kubernetes")
    with kubernetes.config.new_client_from_config(str(access.kubeconfig)) as client:
        core = kubernetes.client.CoreV1Api(client)
        listed = core.list_namespaced_config_map(NAMESPACE)
        yield {item.metadata.name: item.metadata.resource_version for item in listed.items}
        stream = kubernetes.watch.Watch().stream(
            core.list_namespaced_config_map, NAMESPACE, resource_version=listed.metadata.resource_version
        )
        for event in stream:
            yield change_of(event["type"], event["raw_object"]["metadata"])


def kubernetes_asyncio_watch(access: Access) -> Iterator[Mapping[str, str] | Change]:
    library("kubernetes_asyncio")
    from kubernetes_asyncio import client, config, watch

    async def follow() -> AsyncIterator[Mapping[str, str] | Change]:
        configuration = client.Configuration()
        await config.load_kube_config(str(access.kubeconfig), client_configuration=configuration)
        async with client.ApiClient(configuration) as api:
            core = client.CoreV1Api(api)
            listed = await core.list_namespaced_config_map(NAMESPACE)
            yield {item.metadata.name: item.metadata.resource_version for item in listed.items}
            version = listed.metadata.resource_version
            async with watch.Watch().stream(
                core.list_namespaced_config_map, NAMESPACE, resource_version=version
            ) as stream:
                async for event in stream:
                    yield change_of(event["type"], event["raw_object"]["metadata"])

    yield from _in_a_loop(follow)


def kr8s_watch(access: Access) -> Iterator[Mapping[str, str] | Change]:
    """The library's lists do not tell their resourceVersion: the watch begins with all there is."""
    library("kr8s")
    import kr8s.asyncio

    async def follow() -> AsyncIterator[Mapping[str, str] | Change]:
        api: Any = await kr8s.asyncio.api(kubeconfig=str(access.kubeconfig), namespace=NAMESPACE)
        yield {}
        try:
            async for kind, found in api.watch("configmaps", namespace=NAMESPACE):
                yield change_of(kind, found.metadata)
        finally:
            await api._session.aclose()

    yield from _in_a_loop(follow)


def lightkube_watch(access: Access) -> Iterator[Mapping[str, str] | Change]:
    library("lightkube")
    return _lightkube(access)


def lightkube_retry(access: Access) -> Iterator[Mapping[str, str] | Change]:
    """With `on_error=on_error_retry`."""
    library("lightkube")
    from lightkube.types import on_error_retry

    return _lightkube(access, on_error=on_error_retry)


def _lightkube(access: Access, **options: Any) -> Iterator[Mapping[str, str] | Change]:
    from lightkube import Client, KubeConfig
    from lightkube.resources import core_v1

    client = Client(config=KubeConfig.from_file(str(access.kubeconfig)))
    config_map: Any = core_v1.ConfigMap
    try:
        listed: Any = client.list(config_map, namespace=NAMESPACE)
        yield {item.metadata.name: item.metadata.resourceVersion for item in listed}
        version = listed.resourceVersion
        for kind, found in client.watch(config_map, namespace=NAMESPACE, resource_version=version, **options):
            metadata: Any = found.metadata
            yield change_of(kind, {"name": metadata.name, "resourceVersion": metadata.resourceVersion})
    finally:
        if hasattr(client, "close"):
            client.close()


def pykube_watch(access: Access) -> Iterator[Mapping[str, str] | Change]:
    """An ERROR event is handed out like any other: it is raised here."""
    pykube = library("pykube")
    client = pykube.HTTPClient(pykube.KubeConfig.from_file(str(access.kubeconfig)))
    with client.session:
        query = pykube.ConfigMap.objects(client).filter(namespace=NAMESPACE)
        listed = query.response
        yield {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in listed["items"]}
        for event in query.watch(since=listed["metadata"]["resourceVersion"]):
            if event.type == "ERROR":
                raise WatchFailed(event.object.obj.get("reason", ""))
            yield change_of(event.type, event.object.obj["metadata"])


def _in_a_loop(
    follow: Callable[[], AsyncIterator[Mapping[str, str] | Change]],
) -> Iterator[Mapping[str, str] | Change]:
    """Yields what an asynchronous generator does, in an event loop of its own."""
    with asyncio.Runner() as runner:
        found = follow()

        async def following() -> Mapping[str, str] | Change | None:
            return await anext(found, None)

        while (each := runner.run(following())) is not None:
            yield each


# By the name that docs/testing/faults.md has for them.
FOLLOWS: Final[Mapping[str, Follow]] = {
    "by hand": by_hand,
    "kubernetes, Watch": kubernetes_watch,
    "kubernetes_asyncio, Watch": kubernetes_asyncio_watch,
    "kr8s, watch": kr8s_watch,
    "lightkube, watch": lightkube_watch,
    "lightkube, watch with on_error_retry": lightkube_retry,
    "pykube, watch": pykube_watch,
}


class KubernetesInformer:
    """`kubernetes.informer.SharedInformer`, which has a thread of its own."""

    ended_by, is_over = "", False

    def __init__(self, access: Access) -> None:
        kubernetes = library("kubernetes")
        informer = library("kubernetes.informer").SharedInformer
        self._client = kubernetes.config.new_client_from_config(str(access.kubeconfig))
        core = kubernetes.client.CoreV1Api(self._client)
        self._informer = informer(core.list_namespaced_config_map, namespace=NAMESPACE)
        self._informer.start()

    @property
    def state(self) -> dict[str, str]:
        found = self._informer.cache.list()
        return {item.metadata.name: item.metadata.resource_version for item in found}

    def stop(self) -> None:
        # Its own `stop` would wait for a thread that may be waiting for the server.
        threading.Thread(target=self._informer.stop, daemon=True).start()


class KopfIndex:
    """An index of kopf, in an operator that runs in a thread."""

    ended_by = ""

    def __init__(self, access: Access) -> None:
        library("kopf")
        import kopf

        self._stopping = threading.Event()
        self._state: dict[str, str] = {}
        registry = kopf.OperatorRegistry()

        @kopf.on.login(registry=registry)
        def login(**_: Any) -> Any:
            return kopf.ConnectionInfo(server=access.url, ca_path=str(access.ca), token=access.token)

        @kopf.on.startup(registry=registry)
        def configure(settings: Any, **_: Any) -> None:
            settings.posting.enabled = False
            settings.watching.reconnect_backoff = PAUSE_S

        @kopf.on.event("", "v1", "configmaps", registry=registry)
        def changed(event: Any, **_: Any) -> None:
            change = change_of(event["type"] or "ADDED", event["object"]["metadata"])
            if change.version is None:
                self._state.pop(change.name, None)
            else:
                self._state[change.name] = change.version

        def run() -> None:
            try:
                kopf.run(registry=registry, standalone=True, namespaces=[NAMESPACE], stop_flag=self._stopping)
            except Exception as error:
                self.ended_by = f"{type(error).__name__}: {error}"

        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        self._thread = threading.Thread(target=run, name="kopf", daemon=True)
        self._thread.start()

    @property
    def state(self) -> dict[str, str]:
        return dict(self._state)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def stop(self) -> None:
        self._stopping.set()


INFORMERS: Final[Mapping[str, Callable[[Access], Any]]] = {
    "kubernetes, SharedInformer": KubernetesInformer,
    "kopf, events": KopfIndex,
}
