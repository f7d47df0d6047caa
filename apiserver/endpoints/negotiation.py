"""Negotiates content: the form of a request, and the form of its response.

Rows D01-D19. Source: k8s.io/apiserver, pkg/endpoints/handlers/negotiation/negotiate.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from apiserver.meta.brand import Brand
from apiserver.meta.errors import NotAcceptable
from apiserver.wire.media_types import CBOR, CBOR_SEQUENCE, JSON, YAML

# Longer headers are not cached; types beyond this number are ignored.
CACHED_LENGTH_MAX: Final = 512
ACCEPTED_TYPES_MAX: Final = 50
# The documents of a stream must be able to follow each other.
UNSTREAMED: Final = frozenset({YAML})
# The version of the kinds that all resources share, as `;sv=v1` names it.
SERVER_VERSION: Final = "v1"
# Clients can have this left out with `;drop=metadata.managedFields`: few use it, and it is long.
MANAGED_FIELDS: Final = "metadata.managedFields"


class ResponseForm(NamedTuple):
    """The form of a response.

    kind: the kind that objects are turned into before they are encoded: "" (none), Table,
        PartialObjectMetadata or PartialObjectMetadataList.
    version: of that kind.
    drops_managed_fields: whether managedFields are left out.
    is_indented: whether JSON is indented, for people to read.
    include_object: which part of their objects the rows of a Table hold: None, Metadata, Object, or "", which
        is Metadata. Other values are refused.
    """

    media_type: str = JSON
    kind: str = ""
    version: str = "v1"
    drops_managed_fields: bool = False
    is_indented: bool = False
    include_object: str = ""


FULL: Final = ResponseForm()
INDENTED: Final = ResponseForm(is_indented=True)


class TargetKind(NamedTuple):
    """A kind that objects can be turned into, as `;as=Table;g=meta.k8s.io;v=v1` names it."""

    kind: str
    group: str
    version: str


def object_targets(brand: Brand) -> tuple[TargetKind, ...]:
    """Returns the kinds that objects and lists can be turned into."""
    return tuple(
        TargetKind(kind, brand.meta_group, version)
        for kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        for version in ("v1", "v1beta1")
    )


def stream_types(media_types: Iterable[str]) -> tuple[str, ...]:
    """Returns the names that errors use for the streams of these media types."""
    return tuple(
        CBOR_SEQUENCE if each == CBOR else f"{each};stream=watch"
        for each in media_types
        if each not in UNSTREAMED
    )


class _Clause(NamedTuple):
    """One media type of an Accept header."""

    media_type: str
    parameters: dict[str, str]
    quality: float


class Negotiator:
    """Chooses the form of responses.

    targets: the kinds that clients can request instead of the object itself.
    media_types: the supported types, the preferred one first.
    unavailable: pairs of media type and kind of target that are not supported; an empty kind means the object
        itself.
    is_routed: a router comes first, which does not understand `application/*`, and has its own error.
    stream_types: the media types of watches, where a list can be watched: the router's error names them, too.
    is_stream: the response is such a stream.
    """

    def __init__(
        self,
        targets: Sequence[TargetKind],
        media_types: Sequence[str] = (JSON,),
        *,
        unavailable: Collection[tuple[str, str]] = (),
        is_routed: bool = True,
        stream_types: Sequence[str] = (),
        is_stream: bool = False,
    ) -> None:
        self._targets = frozenset(targets)
        self._media_types = tuple(media_types)
        self._unavailable = frozenset(unavailable)
        self._is_routed = is_routed
        self._stream_types = tuple(stream_types)
        self._is_stream = is_stream
        self._known = lru_cache(maxsize=256)(self._form_for)  # clients send few different headers

    def form_for(self, accept: str) -> ResponseForm:
        """Returns the best form that the Accept header allows; an empty header allows everything.

        Raises NotAcceptable.
        """
        return self._known(accept) if len(accept) <= CACHED_LENGTH_MAX else self._form_for(accept)

    def _form_for(self, accept: str) -> ResponseForm:
        if not accept.strip():
            return FULL
        is_any_supported = False
        for clause in _clauses(accept):
            parameters = clause.parameters
            for media_type in self._media_types:
                if not self._includes(clause.media_type, media_type):
                    continue
                is_any_supported = True
                if self._can_become(media_type, parameters):
                    if self._is_stream and media_type in UNSTREAMED:
                        raise NotAcceptable.none_of(self._stream_types)
                    return ResponseForm(
                        media_type,
                        parameters.get("as", ""),
                        parameters.get("v", "v1"),
                        parameters.get("drop") == MANAGED_FIELDS,
                        parameters.get("pretty") == "1" and media_type == JSON and not self._is_stream,
                    )
        if self._is_routed and not is_any_supported:
            # The router rejects these before parameters are looked at.
            available = ", ".join((*self._media_types, *self._stream_types))
            raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {available}", details={})
        raise NotAcceptable.none_of(self._media_types)

    def _includes(self, accepted: str, media_type: str) -> bool:
        if accepted in (media_type, "*/*"):
            return True
        return not self._is_routed and accepted == f"{media_type.partition('/')[0]}/*"

    def _can_become(self, media_type: str, parameters: dict[str, str]) -> bool:
        # Where nothing is streamed, the parameter is allowed and says nothing.
        if parameters.get("stream", "watch") != "watch" or (
            "stream" in parameters and media_type in UNSTREAMED
        ):
            return False
        if parameters.get("sv", SERVER_VERSION) != SERVER_VERSION:
            return False
        if parameters.keys().isdisjoint(("as", "g", "v")):
            return (media_type, "") not in self._unavailable
        target = TargetKind(*(parameters.get(name, "") for name in ("as", "g", "v")))
        return target in self._targets and (media_type, target.kind) not in self._unavailable


def _clauses(accept: str) -> list[_Clause]:
    """Returns the media types of an Accept header, the best first; of equally good ones the more specific."""
    clauses = list(_parse(accept))
    clauses.sort(key=lambda clause: (-clause.quality, clause.media_type.count("*")))
    return [clause for clause in clauses if clause.quality > 0]


def _parse(accept: str) -> Iterable[_Clause]:
    for text in accept.split(",", ACCEPTED_TYPES_MAX)[:ACCEPTED_TYPES_MAX]:
        media_type, *pieces = (piece.strip() for piece in text.split(";"))
        parameters = {
            name.strip().lower(): value.strip().strip('"')
            for name, _, value in (piece.partition("=") for piece in pieces)
            if value
        }
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        yield _Clause("*/*" if media_type == "*" else media_type.lower(), parameters, quality)


def base_type(header: str) -> str:
    """Returns the media type without its parameters, in lower case."""
    return header.partition(";")[0].strip().lower()
