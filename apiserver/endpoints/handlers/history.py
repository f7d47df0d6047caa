"""Handles requests for the past: `/at/MOMENT/…`, `…/NAME/history`, and `/history`.

The second lists the versions of an object, or compares two of its states; the last one lists the changes of
all objects.

None of them is in discovery, so that programs that read everything do not find the same objects many times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice, zip_longest
from typing import Any, Final

import orjson

from apiserver.auth.authz.attributes import Attributes, decided, is_allowed, require_allowed
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.handlers.encoders import Encoders
from apiserver.endpoints.handlers.list import send_list
from apiserver.endpoints.handlers.long_selectors import wait_for_turn
from apiserver.endpoints.request_info import HISTORY
from apiserver.endpoints.responses import send_document, send_object, unicode_of
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta import timestamps
from apiserver.meta.brand import Brand
from apiserver.meta.errors import BadRequest, MethodNotAllowed, NotFound
from apiserver.meta.options import ListOptions, first, require_only
from apiserver.meta.vocabulary import Document
from apiserver.registry.history.differences import difference
from apiserver.registry.history.past import PastList, PastObject, PastReads, VersionPage
from apiserver.registry.history.recent_changes import (
    ChangesPage,
    ChangesQuery,
    Place,
    PlacedChange,
    RecentChanges,
)
from apiserver.registry.patch.merge_patch import is_same
from apiserver.storage.history.changes import Span
from apiserver.storage.history.past_values import RecordedVersion

VERSIONS_DEFAULT: Final = 100
VERSIONS_MAX: Final = 500
# `pretty` and `timeout` are those of all requests.
CHANGES_PARAMETERS: Final = (
    *("since", "until", "by", "namespace", "limit", "continue"),
    *("pretty", "timeout"),
)
_RIGHTS: Final = "get and list permissions on {0}, and get permission on {0}/history"
_THINNED: Final = (
    "the status of {0} is left out: it is not known any more, as versions that changed only the status "
    "were thinned"
)
# Changed fields of one version that are listed.
FIELDS_MAX: Final = 100
DIGITS_MAX: Final = 18
# Objects that a list lacks because their values are lost.
LOST_NAMED_MAX: Final = 10
# Of a listed field; what is deeper is a part of it.
DEPTH_MAX: Final = 64
# Fields that each write changes.
_STATUS: Final = "status"
_ALWAYS_DIFFERENT: Final = frozenset({("metadata", "managedFields"), ("metadata", "resourceVersion")})


class PastHandlers:
    """The handlers of these requests, for users who may read an object and its history."""

    def __init__(
        self,
        past: PastReads,
        changes: RecentChanges,
        encoders: Encoders,
        brand: Brand,
        authorize: AuthorizationChain,
    ) -> None:
        self._past, self._changes, self._encoders = past, changes, encoders
        self._meta_group, self._authorize = brand.meta_group, authorize

    async def state(self, call: ApiCall) -> None:
        """Send an object, or a list, as it was. Raises MethodNotAllowed, Forbidden, and as `PastReads`."""
        info = call.info
        if info.verb not in ("get", "list") or info.subresource:
            raise MethodNotAllowed
        await self._require(self._attributes(call, "get", HISTORY, info.namespace))
        encoder = self._encoders.for_call(call)
        if info.verb == "get":
            revision = await self._past.revision_of(info.moment)
            one = await self._past.get(
                call.resource, info.namespace, info.name, revision, partial(self._may_see_earlier, call)
            )
            if one.is_thinned:
                call.warnings.append(_THINNED.format("the object"))
            await send_object(call, encoder, one.found)
            return
        await wait_for_turn(call.query)
        if first(call.query, "continue"):
            raise BadRequest("a list of the past has no continue token")
        query = {key: value for key, value in call.query.items() if not key.startswith("resourceVersion")}
        options = ListOptions.for_list(query, call.resource.known_fields, self._meta_group)
        async with asyncio.timeout(options.timeout_s or None):
            revision = await self._past.revision_of(info.moment)
            found = await self._past.list(
                call.resource, info.namespace, options, revision, partial(self._may_see_earlier, call)
            )
            call.warnings += _incompleteness(found, call.resource.resource)
            await send_list(call, encoder, found.listed)

    async def versions(self, call: ApiCall) -> None:
        """Send the versions of an object, the newest first, or with `from` and `to` a difference.

        Raises BadRequest, and as `PastReads`.
        """
        info = call.info
        if info.verb != "get" or info.rest:
            raise MethodNotAllowed
        # `get` of the subresource has been checked.
        await self._require(self._attributes(call, "get", "", info.namespace))
        if "from" in call.query or "to" in call.query:
            await self._difference(call)
            return
        limit = min(number_of(call, "limit") or VERSIONS_DEFAULT, VERSIONS_MAX)
        found = await self._past.versions(
            call.resource,
            info.namespace,
            info.name,
            # With the version before the last one, to say what that has changed.
            VersionPage(number_of(call, "before"), limit + 1),
            partial(self._may_see_earlier, call),
        )
        await send_document(call, await call.offload.run(SizeClass.HUGE, _document, found, limit))

    async def changes(self, call: ApiCall) -> None:
        """Send the changes of all objects that the user may see, the newest first.

        Raises BadRequest, and as `PastReads`.
        """
        # `undo --by` acts on what is found: a misspelt filter must not show the changes of all users.
        require_only(call.query, CHANGES_PARAMETERS)
        limit = number_of(call, "limit") or VERSIONS_DEFAULT
        if limit > VERSIONS_MAX:
            raise BadRequest(f"limit must be at most {VERSIONS_MAX}, not {limit}")
        position = number_of(call, "continue")
        user, namespace = (first(call.query, each) for each in ("by", "namespace"))
        span = await self._past.span(first(call.query, "since"), first(call.query, "until"))
        if position and not self._changes.is_position(position, span):
            raise BadRequest("continue is not from a response to a request with the same since and until")
        query = ChangesQuery(span, position, limit, user, namespace)
        page = await self._changes.read(query, partial(self._may_see_changes, call))
        document = await call.offload.run(SizeClass.HUGE, _changes_document, page)
        span_document = {"since": str(span.after), "until": str(span.until)}
        await send_document(call, {**span_document, **document})

    async def _may_see_changes(self, call: ApiCall, place: Place) -> bool:
        resource = place.resource
        needed = (
            Attributes(
                call.user,
                verb,
                group=resource.group_version.group,
                resource=resource.resource,
                subresource=subresource,
                namespace=place.namespace,
                version=resource.group_version.version,
            )
            for verb, subresource in (("list", ""), ("get", HISTORY))
        )
        return all([await is_allowed(self._authorize, each) for each in needed])

    async def _difference(self, call: ApiCall) -> None:
        """Send the difference of an object between two moments. One that is left out is the present.

        Raises NotFound if the object, or the right to see it as it was, is missing at both.
        """
        name = f"{call.resource.resource}/{call.info.name}"
        before, after = [await self._at(call, first(call.query, each)) for each in ("from", "to")]
        if before is None and after is None:
            raise NotFound(call.resource.group_resource, call.info.name)
        states = [each for each in (before, after) if each is not None]
        compare = partial(difference, is_thinned=any(each.is_thinned for each in states))
        old, new = (None if each is None else each.found for each in (before, after))
        # At least as for a large object: writing YAML takes ten times as long as reading JSON.
        size = max(SizeClass.LARGE, size_class(sum(len(each.found.tail) for each in states)))
        await send_document(call, await call.offload.run(size, compare, name, old, new))

    async def _at(self, call: ApiCall, moment: str) -> PastObject | None:
        """Returns an object as it was; None if there was none that the user may see.

        Raises as `PastReads`.
        """
        info = call.info
        revision = await self._past.revision_of(moment)
        try:
            return await self._past.get(
                call.resource, info.namespace, info.name, revision, partial(self._may_see_earlier, call)
            )
        except NotFound:
            return None

    def _attributes(self, call: ApiCall, verb: str, subresource: str, namespace: str) -> Attributes:
        info = call.info
        return Attributes(
            call.user,
            verb,
            group=info.group,
            resource=info.resource,
            subresource=subresource,
            namespace=namespace,
            name=info.name,
            version=info.version,
        )

    async def _require(self, attributes: Attributes) -> None:
        require_allowed(attributes, await decided(self._authorize, attributes))

    async def _may_see_earlier(self, call: ApiCall) -> bool:
        """Whether the user may see objects that have been replaced by others with the same name."""
        needed = (
            self._attributes(call, call.info.verb, "", ""),
            self._attributes(call, "get", HISTORY, ""),
        )
        return all([await is_allowed(self._authorize, each) for each in needed])


def _incompleteness(past: PastList, resource: str) -> Iterator[str]:
    """Yields warnings of what a list may lack."""
    if past.omitted:
        omitted = (
            "1 deleted object whose name has been used again; to see it"
            if past.omitted == 1
            else f"{past.omitted} deleted objects whose names have been used again; to see them"
        )
        yield f"the list omits {omitted}, you need {_RIGHTS.format(resource)} in all namespaces"
    if past.lost:
        named = ", ".join(past.lost[:LOST_NAMED_MAX]) + (", ..." if len(past.lost) > LOST_NAMED_MAX else "")
        lost = "1 object was" if len(past.lost) == 1 else f"{len(past.lost)} objects were"
        yield f"the list may be incomplete: the history has lost what {lost}: {named}"
    if past.thinned:
        yield _THINNED.format("1 object" if past.thinned == 1 else f"{past.thinned} objects")
    if past.purged:
        purged = "1 object" if past.purged == 1 else f"{past.purged} objects"
        yield f"the list may be incomplete: the history of {purged} was purged"


def number_of(call: ApiCall, parameter: str) -> int:
    """Returns the value of a numeric parameter; 0 without it. Raises BadRequest."""
    text = first(call.query, parameter)
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX):
        raise BadRequest(f"{parameter} must be a positive number, not {text!r}")
    return int(text)


def _changes_document(page: ChangesPage) -> Document:
    """Returns a page of changes as JSON. It decodes one object after another, and keeps none."""
    document: Document = {"changes": [_change(each) for each in page.entries]}
    if page.position:
        document["continue"] = str(page.position)
    return document


def _change(entry: PlacedChange | Span) -> Document:
    if isinstance(entry, Span):
        return {"gap": {"since": str(entry.after), "until": str(entry.until)}}
    group_version, resource = entry.place.resource.group_version, entry.place.resource.resource
    where = {**group_version._asdict(), "resource": resource, "namespace": entry.place.namespace}
    before = None if entry.before is None else _decoded(entry.before)
    return {
        **{key: value for key, value in where.items() if value},
        "name": entry.name,
        **_version(entry.version, _decoded(entry.version), before),
    }


def _document(versions: Sequence[RecordedVersion], limit: int) -> Document:
    """Returns versions as JSON. versions: one more than the limit, if there are so many."""
    shown = versions[:limit]
    documents = [_decoded(each) for each in versions]
    document: Document = {
        "versions": [
            _version(each, after, before)
            for each, after, before in zip_longest(
                shown, documents[: len(shown)], documents[1 : len(shown) + 1]
            )
        ]
    }
    if len(versions) > limit:
        document["continue"] = {"before": str(shown[-1].revision)}
    return document


def _decoded(version: RecordedVersion) -> Document | None:
    found: Document | None = None if version.value is None else orjson.loads(version.value or b"{}")
    return found


def _version(version: RecordedVersion, after: Document | None, before: Document | None) -> Document:
    """Returns a version as JSON. after: the object; before: the one before, if it is known."""
    found: Document = {"resourceVersion": str(version.revision)}
    if version.author is None:
        return {**found, "recorded": False} | ({"purged": True} if version.is_purged else {})
    author = version.author
    found["time"] = timestamps.to_micro_text(version.at_ms / 1000)
    said = {
        "verb": author.verb,
        "user": author.user,
        "groupsDigest": author.groups,
        "userAgent": unicode_of(author.user_agent),
        "fieldManager": author.manager,
        "subresource": author.subresource,
        "auditID": version.audit_id,
    }
    found |= {key: value for key, value in said.items() if value}
    if version.is_lost:
        found["lost"] = True
    elif after is None:
        found["deleted"] = True
    elif before is not None:
        changed = _changed(before, after, ())
        if version.thinned:
            # Those that others have changed are among them.
            changed = (path for path in changed if path[0] != _STATUS)
        found["changedFields"] = [".".join(path) for path in islice(changed, FIELDS_MAX)]
    if version.thinned:
        found["thinned"] = version.thinned
    return found


def _changed(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the paths of the fields that differ between two documents."""
    if path in _ALWAYS_DIFFERENT:
        return
    if isinstance(before, dict) and isinstance(after, dict) and len(path) < DEPTH_MAX:
        for key in dict.fromkeys((*before, *after)):
            yield from _changed(before.get(key), after.get(key), (*path, key))
    elif not is_same(before, after):
        yield path
