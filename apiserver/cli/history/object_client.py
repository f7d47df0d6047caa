"""Sends requests about the object that the arguments of a command name, and reads what the server answers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson

from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.named_resources import add_group_domain_option, brand_of, found
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.cli.worker_answers import invalid_response
from apiserver.meta.vocabulary import Document

# Of one page; the most that the server sends.
PAGE: Final = 500
# Pages that are read to find a version: 50,000 versions.
PAGES_MAX: Final = 100
# The server lists no more fields of a version.
CHANGED_FIELDS_MAX: Final = 100
# As long as 64 bits need.
_IS_REVISION: Final = re.compile("[0-9]{1,19}")
# The message of Status for a path that does not exist, as `…/history` without --history.
_NO_PATH: Final = "the server could not find the requested resource"


class ListedVersion(NamedTuple):
    """A version of an object, as the server lists it.

    time: RFC 3339; empty if the change is not recorded. verb: with the subresource, as `patch/status`.
    changed: the paths of the fields that it has changed. is_deleted: whether it is the deletion.
    document: the version as the server sent it.
    """

    revision: int
    time: str
    user: str
    manager: str
    verb: str
    changed: tuple[str, ...]
    is_deleted: bool
    document: Document

    @property
    def is_recorded(self) -> bool:
        return bool(self.time)

    @property
    def subresource(self) -> str:
        return self.verb.partition("/")[2]


class ObjectName(NamedTuple):
    """An object. version: that of its group. namespace: empty for a cluster-scoped object."""

    group: str
    version: str
    resource: str
    namespace: str
    name: str

    @property
    def title(self) -> str:
        """`RESOURCE.GROUP/NAME`, as kubectl takes it."""
        return f"{self.resource}{'.' if self.group else ''}{self.group}/{self.name}"


class ObjectClient:
    """Sends requests about one object.

    title: `RESOURCE/NAME`, for messages. resource: `RESOURCE.GROUP`, as kubectl takes it.
    """

    def __init__(self, client: ApiClient, target: ObjectName) -> None:
        self.client = client
        group_version = f"/apis/{segment(target.group)}" if target.group else "/api"
        place = f"/namespaces/{segment(target.namespace)}" if target.namespace else ""
        self.group, self.resource, self.title = target.group, target.resource, target.title
        self.collection = f"{group_version}/{segment(target.version)}{place}/{segment(target.resource)}"
        self.path = f"{self.collection}/{segment(target.name)}"
        self._history = f"{self.path}/history"

    def versions(self, count: int) -> tuple[list[ListedVersion], bool]:
        """Returns the newest versions, the newest first, and whether there are more. Raises RequestFailed."""
        listed: list[ListedVersion] = []
        for version in self.all_versions(min(count + 1, PAGE)):
            if len(listed) == count:
                return listed, True
            listed.append(version)
        return listed, False

    def all_versions(self, page_size: int = PAGE) -> Iterator[ListedVersion]:
        """Yields the versions of the object, the newest first. Raises RequestFailed."""
        query = {"limit": str(page_size)}
        for _ in range(PAGES_MAX):
            page = self._get_history(query)
            try:
                versions = [listed_version(each) for each in page["versions"]]
                before = str(page["continue"]["before"]) if "continue" in page else ""
            except (AttributeError, LookupError, TypeError, ValueError):
                raise invalid_response(self._history) from None
            yield from versions
            if not before:
                return
            query["before"] = before
        raise RequestFailed(f"{self.title} has more than {PAGES_MAX * page_size} versions")

    def difference(self, moments: Mapping[str, str]) -> Document:
        """Returns the server's answer about two moments. Raises RequestFailed."""
        answer = self._get_history({side: moment for side, moment in moments.items() if moment})
        if not isinstance(answer.get("yamlDiff"), str):
            raise invalid_response(self._history)
        return answer

    def live(self) -> Document | None:
        """Returns the object; None if there is none. Raises RequestFailed."""
        return self._object(self.path)

    def at(self, revision: int) -> Document | None:
        """Returns the object at a revision; None if there was none that the user may see.

        Raises RequestFailed, also if the history does not have this revision.
        """
        return self._object(f"/at/{revision}{self.path}")

    def _object(self, path: str) -> Document | None:
        try:
            found: Document = self.client.get(path)
        except RequestFailed as failed:
            if failed.status == HTTPStatus.NOT_FOUND:
                return None
            raise
        if not _is_object(found):
            raise invalid_response(path)
        return found

    def _get_history(self, query: Mapping[str, str]) -> Document:
        try:
            answer: Document = self.client.get(self._history, query)
        except RequestFailed as failed:
            if failed.status == HTTPStatus.NOT_FOUND and str(failed) == _NO_PATH:
                raise RequestFailed(
                    f"the server has no history of {self.title}; it must run with --history", failed.status
                ) from None
            raise
        return answer


def named_object(client: ApiClient, given: argparse.Namespace) -> ObjectName:
    """Returns the object that the arguments of `add_object_arguments` name. Raises RequestFailed."""
    served = found(client, brand_of(given), given.kind)
    if not served.version:
        raise RequestFailed(f"the server does not show which version of {given.kind} it serves")
    namespace = (given.namespace or client.namespace or "default") if served.is_namespaced else ""
    return ObjectName(served.group, served.version, served.resource, namespace, given.name)


@contextmanager
def object_client(given: argparse.Namespace, command: str) -> Iterator[ObjectClient]:
    """Connects to the server that the arguments name. command: for the user agent.

    Raises UsageError, RequestFailed.
    """
    client = ApiClient(ServerOptions.of(given), command)
    try:
        yield ObjectClient(client, named_object(client, given))
    finally:
        client.close()


def add_object_arguments(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Have a parser take the kind and the name of an object, and its server, for `object_client`.

    is_optional: whether the arguments may name no object.
    """
    count = "?" if is_optional else None
    parser.add_argument(
        "kind",
        metavar="KIND",
        nargs=count,
        help="A resource name that kubectl accepts, for example configmap, deploy or deployments.apps.",
    )
    parser.add_argument("name", metavar="NAME", nargs=count, help="The name of the object.")
    more = " With --by: only changes in this namespace; the default is all objects." if is_optional else ""
    add_namespace_option(parser, more)
    add_server_options(parser)
    add_group_domain_option(parser)


def add_namespace_option(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Have a parser take the namespace of an object. more: what the help says besides."""
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        default="",
        help="The namespace of the object. The default is the namespace of the kubeconfig context, or "
        f"`default` if the context has no namespace.{more}",
    )


def _is_object(document: Document) -> bool:
    """Returns whether a document is an object of this API, and no deeper than one that can be stored."""
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("uid"), str):
        return False
    version = metadata.get("resourceVersion")
    try:
        orjson.dumps(document)
    except orjson.JSONEncodeError:
        return False
    return isinstance(version, str) and _IS_REVISION.fullmatch(version) is not None


def listed_version(document: Any) -> ListedVersion:
    """Returns a version as the server lists it.

    Raises AttributeError, LookupError, TypeError, ValueError if a document is no version."""
    verb, subresource = (_text(document, field) for field in ("verb", "subresource"))
    changed = document.get("changedFields", [])
    if not (isinstance(changed, list) and all(isinstance(each, str) for each in changed)):
        raise TypeError
    return ListedVersion(
        int(document["resourceVersion"]),
        _text(document, "time"),
        _text(document, "user"),
        _text(document, "fieldManager"),
        f"{verb}/{subresource}" if subresource else verb,
        tuple(changed),
        document.get("deleted") is True,
        document,
    )


def _text(document: Any, field: str) -> str:
    value = document.get(field, "")
    if not isinstance(value, str):
        raise TypeError
    return value
