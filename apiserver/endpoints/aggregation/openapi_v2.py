"""Downloads the OpenAPI v2 documents of extension servers, and keeps the parts about their versions.

A document that is malformed, or too large, counts as none.
Source: k8s.io/kube-aggregator, pkg/controllers/openapi; k8s.io/kube-openapi, pkg/aggregator.
"""

from __future__ import annotations

import hashlib
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import orjson

from apiserver.controller_runtime.controller import Outcome, Requeue
from apiserver.controller_runtime.work_queue import Backoff
from apiserver.endpoints.aggregation.extension_client import ExtensionFailed
from apiserver.endpoints.aggregation.remote_versions import OpenApiPart, RemoteVersion, ServiceReference
from apiserver.endpoints.aggregation.service_poller import REFRESH_S, ServicePoller, etag_of
from apiserver.load.size_class import SizeClass
from apiserver.meta.vocabulary import Document, GroupVersion
from apiserver.wire import json_text

log = logging.getLogger(__name__)

# Of what is kept of one version.
PART_BYTES_MAX: Final = 2 * 1024 * 1024
_LEVEL: Final = 1
_DEFINITIONS: Final = "#/definitions/"
_PARAMETERS: Final = "#/parameters/"
KINDS: Final = "x-kubernetes-group-version-kind"


class NotOpenApi(ValueError):
    """A document is not valid OpenAPI v2; the message is for people."""


@dataclass(slots=True)
class _OpenApiService:
    """The last response of a service.

    versions: the requested ones. etag, digest: those of the document.
    """

    versions: frozenset[GroupVersion] = frozenset()
    etag: str = ""
    digest: bytes = b""
    parts: Mapping[GroupVersion, OpenApiPart] = field(default_factory=dict)


class OpenApiV2Controller(ServicePoller[_OpenApiService]):
    """Keeps the OpenAPI v2 parts of remote versions up to date."""

    queue_name = "open_api_aggregation_controller"
    backoff = Backoff(base_s=1.0, max_s=60.0)
    within_s = 60.0  # As in Kubernetes: servers build the document when it is asked for.
    # The document of all of Kubernetes has 4 MB.
    bytes_max: ClassVar = 16 * 1024 * 1024

    async def refresh(
        self, service: ServiceReference, versions: Sequence[RemoteVersion], available: Sequence[RemoteVersion]
    ) -> Outcome:
        if not available:
            return None  # It is added when it becomes available.
        known = self.answered.setdefault(service, _OpenApiService())
        try:
            await self._ask(known, available[0], frozenset(each.group_version for each in versions))
        except (ExtensionFailed, ValueError) as error:
            log.info("cannot download the OpenAPI v2 document from %s: %s", service, error)
            if isinstance(error, ValueError):
                self.answered[service] = known = _OpenApiService()
        self.remote.set_openapi_v2((each, known.parts.get(each.group_version)) for each in versions)
        return Requeue(after_s=REFRESH_S)

    async def _ask(
        self, known: _OpenApiService, version: RemoteVersion, wanted: frozenset[GroupVersion]
    ) -> None:
        """Download the document of a service."""
        if known.versions != wanted:
            known.versions, known.etag, known.digest = wanted, "", b""
        answer = await self.get(version, "/openapi/v2", etag=known.etag)
        if answer.status == 304 and known.etag:
            return
        if answer.status == 404:
            known.parts, known.etag, known.digest = {}, "", b""  # It has none.
            return
        if answer.status != 200:
            raise ExtensionFailed(f"failed to retrieve openAPI spec, http error: {answer.status}")

        def read() -> tuple[bytes, Mapping[GroupVersion, OpenApiPart]]:
            digest = hashlib.sha256(answer.body).digest()
            if digest == known.digest:
                return digest, known.parts
            return digest, parts_of(json_text.load(answer.body), wanted)

        known.digest, known.parts = await self.offload.run_begun(SizeClass.HUGE, read)
        known.etag = etag_of(answer)


def parts_of(document: Any, versions: Iterable[GroupVersion]) -> Mapping[GroupVersion, OpenApiPart]:
    """Returns the parts of a document about some versions: their paths, and what these refer to.

    Raises NotOpenApi.
    """
    if not isinstance(document, dict) or document.get("swagger") != "2.0":
        raise NotOpenApi("the response is not an OpenAPI v2 document")
    found = {}
    for each in versions:
        part = _part(document, each)
        if part["paths"]:
            text = _json(part, f"the description of {each}")
            if len(text) > PART_BYTES_MAX:
                raise NotOpenApi(f"the description of {each} is longer than {PART_BYTES_MAX} bytes")
            digest = hashlib.sha256(text).hexdigest()
            found[each] = OpenApiPart(digest, len(text), zlib.compress(text, _LEVEL))
    return found


def _part(document: Document, version: GroupVersion) -> Document:
    """Returns the part of a version."""
    prefix = f"/apis/{version}/"
    parameters = _SharedParameters(_object(document.get("parameters")))
    paths = {
        path: _with_parameters(item, parameters)
        for path, item in _object(document.get("paths")).items()
        if path.startswith(prefix) and isinstance(item, dict)
    }
    every, definitions = _object(document.get("definitions")), dict[str, Any]()
    left = list(references(paths))
    while left:
        reference = left.pop()["$ref"]
        name = reference.removeprefix(_DEFINITIONS)
        if name in definitions:
            continue
        if name == reference or not isinstance(every.get(name), dict):
            raise NotOpenApi(f"the document refers to {reference[:100]}, which does not exist")
        definitions[name] = _of_version(every[name], version)
        left += references(every[name])
    return {"paths": paths, "definitions": definitions}


def _of_version(definition: Document, version: GroupVersion) -> Document:
    """Returns a definition whose kinds are only those of a version, since clients look it up by these."""
    kinds = definition.get(KINDS)
    if kinds is None:
        return definition
    own = [
        each
        for each in (kinds if isinstance(kinds, list) else ())
        if isinstance(each, dict) and (each.get("group"), each.get("version")) == version
    ]
    return {**definition, KINDS: own}


def references(value: Any) -> Iterator[Document]:
    """Yields all objects in a value that contain a reference, a text in `$ref`."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                yield each
            left += each.values()


class _SharedParameters:
    """The shared parameters of a document that its paths refer to.

    As each may be referred to very often, a short document could become gigabytes: their total is limited.
    """

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self._shared = shared
        self._sizes: dict[str, int] = {}  # of their JSON, by name
        self._put_in = 0

    def whole(self, parameters: Any) -> list[Document]:
        """Returns parameters without references. Raises NotOpenApi."""
        found = []
        for each in parameters if isinstance(parameters, list) else ():
            reference = each.get("$ref") if isinstance(each, dict) else None
            if isinstance(reference, str) and reference.startswith(_PARAMETERS):
                each = self._named(reference.removeprefix(_PARAMETERS))
            if isinstance(each, dict):
                found.append(each)
        return found

    def _named(self, name: str) -> Any:
        found = self._shared.get(name)
        if name not in self._sizes:
            self._sizes[name] = len(_json(found, "a parameter"))
        self._put_in += self._sizes[name]
        if self._put_in > PART_BYTES_MAX:
            raise NotOpenApi(f"the resolved references to parameters exceed {PART_BYTES_MAX} bytes")
        return found


def _json(value: Any, what: str) -> bytes:
    """Returns a value as JSON."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        raise NotOpenApi(f"{what} is nested too deeply") from None


def _with_parameters(item: Document, shared: _SharedParameters) -> Document:
    """Returns a path that includes the parameters it refers to, which another document does not have.

    Raises NotOpenApi.
    """
    changed = {}
    for name, each in item.items():
        if name == "parameters":
            each = shared.whole(each)
        elif isinstance(each, dict) and "parameters" in each:
            each = {**each, "parameters": shared.whole(each["parameters"])}
        changed[name] = each
    return changed


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
