"""Serves /statusz and /flagz: the state of this server, and the values of its flags.

By default they respond with text, whose separators vary so that no program relies on it. With
`application/json;g=config.k8s.io;v=v1beta1;as=Statusz`, or with YAML or CBOR, they respond with a versioned
object. Any HTTP method is allowed, as nothing changes.
Source: k8s.io/apiserver, pkg/server/{statusz,flagz} (release 1.36).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, NamedTuple

from apiserver import wire
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.negotiation import Negotiator, ResponseForm, TargetKind
from apiserver.endpoints.responses import TEXT, json_text, send
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.meta.releases.emulation import EmulatedRelease
from apiserver.meta.vocabulary import Document
from apiserver.wire.media_types import CBOR, JSON, YAML

STATUSZ: Final = "statusz"
FLAGZ: Final = "flagz"
# What both are about.
COMPONENT: Final = "apiserver"
_PLAIN: Final = "text/plain"
_SEPARATORS: Final = (":", ": ", "=", " ")
_HEAD: Final = (
    "\n{component} {page}\nWarning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only.\n"
)
_DEPRECATED: Final = "This version of the {page} endpoint is deprecated. Please use a newer version."
# The versions of the objects, with the releases that have brought them; the first of several is deprecated.
_VERSIONS: Final = {"v1alpha1": 35, "v1beta1": 36}
# Paths that are for clients, and not for debugging.
_NOT_FOR_DEBUGGING: Final = frozenset({"", "apis", "api", "openid", "openapi", ".well-known"})


class ZPagesServer(NamedTuple):
    """The state of the server that the pages show.

    started_at, clock: seconds since 1970. language: as in /version.

    flags: returns the values of all flags by name.
    """

    release: EmulatedRelease
    language: str
    started_at: float
    clock: Callable[[], float]
    flags: Callable[[], Mapping[str, str]]


class ZPages:
    """The z-pages of a server. names: the enabled ones."""

    def __init__(self, server: ZPagesServer, brand: Brand, names: Iterable[str], *, has_cbor: bool) -> None:
        self._server, self._group, self._has_cbor = server, brand.group("config"), has_cbor
        self.names = frozenset(names)

    def handlers(self, paths: Callable[[], Iterable[str]]) -> Mapping[str, Handler]:
        """Returns the handlers by name. paths: returns the paths that an index names."""
        server = self._server
        pages = (
            _Page(STATUSZ, "Statusz", partial(_status, server, paths), partial(_status_lines, server, paths)),
            _Page(FLAGZ, "Flagz", partial(_flags, server), partial(_flag_lines, server)),
        )
        versions = [each for each, since in _VERSIONS.items() if since <= server.release.minor]
        return {
            page.name: _handler(page, self._group, versions, has_cbor=self._has_cbor)
            for page in pages
            if page.name in self.names
        }


class _Page(NamedTuple):
    """A z-page. lines: returns those of the text, with a separator."""

    name: str
    kind: str
    fields: Callable[[], Document]
    lines: Callable[[str], Iterable[str]]


def _handler(page: _Page, group: str, versions: list[str], *, has_cbor: bool) -> Handler:
    structured = (JSON, YAML, *((CBOR,) if has_cbor else ()))
    supported = (*structured, _PLAIN)
    negotiator = Negotiator(
        [TargetKind(page.kind, group, version) for version in versions],
        supported,
        unavailable=[(media_type, "") for media_type in structured],
        is_routed=False,
    )

    async def respond(call: ApiCall) -> None:
        accept = call.request.headers.get("Accept", "")
        form = negotiator.form_for(accept) if accept.strip() else ResponseForm(_PLAIN)
        if form.media_type != _PLAIN:
            await send_structured(call, form)
        elif form.kind:
            raise NotAcceptable.none_of(supported)
        else:
            separator = random.choice(_SEPARATORS)  # noqa: S311  no secret
            lines = (_HEAD.format(component=COMPONENT, page=page.name), *page.lines(separator))
            await send(call, 200, "".join(lines).encode(), TEXT)

    async def send_structured(call: ApiCall, form: ResponseForm) -> None:
        document = {
            "kind": page.kind,
            "apiVersion": f"{group}/{form.version}",
            "metadata": {"name": COMPONENT},
            **page.fields(),
        }
        is_deprecated = form.version in versions[:-1]
        headers = {"Warning": f'299 - "{_DEPRECATED.format(page=page.name)}"'} if is_deprecated else {}
        content_type = f"{form.media_type};g={group};v={form.version};as={page.kind}"
        await send(call, 200, _encoded(call, document, form), content_type, headers)

    return respond


def _encoded(call: ApiCall, document: Document, form: ResponseForm) -> bytes:
    if form.media_type == YAML:
        return wire.yaml.dump(document)
    if form.media_type == CBOR:
        return wire.cbor.dump(document)
    return json_text(document, form.is_indented or call.is_pretty)


# ---- /statusz


def _status(server: ZPagesServer, paths: Callable[[], Iterable[str]]) -> Document:
    return {
        "startTime": timestamps.to_text(server.started_at),
        "uptimeSeconds": _uptime_s(server),
        "goVersion": server.language,
        "binaryVersion": str(server.release),
        "emulationVersion": str(server.release),
        "paths": _first_steps(paths()),
    }


def _status_lines(server: ZPagesServer, paths: Callable[[], Iterable[str]], separator: str) -> Iterable[str]:
    seconds = _uptime_s(server)
    since = time.strftime("%a %b %e %H:%M:%S UTC %Y", time.gmtime(server.started_at))
    told = {
        "Started": since,
        "Up": f"{seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
        "Go version": server.language,
        "Binary version": str(server.release),
        "Emulation version": str(server.release),
        "Paths": " ".join(_first_steps(paths())),
    }
    yield "\n"
    for name, text in told.items():
        yield f"{name}{separator} {text}\n"


def _uptime_s(server: ZPagesServer) -> int:
    return max(0, int(server.clock() - server.started_at))


def _first_steps(paths: Iterable[str]) -> list[str]:
    """Returns the first segments of paths, of those that are useful for debugging."""
    first = {path.split("/")[1] for path in paths}
    return [f"/{step}" for step in sorted(first - _NOT_FOR_DEBUGGING)]


# ---- /flagz


def _flags(server: ZPagesServer) -> Document:
    return {"flags": dict(server.flags())}


def _flag_lines(server: ZPagesServer, separator: str) -> Iterable[str]:
    return (f"{name}{separator}{value}\n" for name, value in sorted(server.flags().items()))
