"""Makes the request that the running task handles known to the history, as the author of its writes."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.request_info import READ_VERBS
from apiserver.meta.options import first
from apiserver.registry.history.authors import (
    AUTHORS_KEPT_MAX,
    CURRENT_CALL,
    TEXT_LENGTH_MAX,
    encoded,
    groups_digest,
)
from apiserver.registry.patch.apply.managed_fields import manager_or_user_agent
from apiserver.storage.history.changes import Author


class _AuthorOfCall:
    """The author of the writes of one request."""

    __slots__ = ("_call", "_info", "audit_id")

    def __init__(self, call: ApiCall) -> None:
        self._call, self.audit_id = call, call.audit_id
        # As in the audit log: that of the call becomes a create if an update or a patch creates the object.
        self._info = call.info

    def encoded_author(self) -> bytes:
        call, info = self._call, self._info
        user = call.user
        # No uid and no extra: they differ for each token, and are not noted.
        return _encoded_author(
            user.name,
            user.groups,
            call.user_agent,
            first(call.query, "fieldManager") if call.query else "",
            info.verb,
            info.subresource,
        )


# For most requests all of this is that of a request before.
@lru_cache(maxsize=AUTHORS_KEPT_MAX)
def _encoded_author(
    name: str, groups: tuple[str, ...], user_agent: str, field_manager: str, verb: str, subresource: str
) -> bytes:
    return encoded(
        Author(
            _text(name),
            groups_digest(groups),
            _text(user_agent),
            _text(manager_or_user_agent(field_manager, user_agent)),
            verb,
            subresource,
        )
    )


def note_author(handle: Handler) -> Handler:
    """Makes a request known as the author of what it writes."""

    # Not a coroutine: every request only passes through.
    def noted(call: ApiCall) -> Awaitable[None]:
        if call.info.verb not in READ_VERBS:
            CURRENT_CALL.set(_AuthorOfCall(call))
        return handle(call)

    return noted


def _text(text: str) -> str:
    """Returns text from a header, whose bytes need not be UTF-8, within limits."""
    return text[:TEXT_LENGTH_MAX].encode(errors="surrogateescape").decode(errors="replace")
