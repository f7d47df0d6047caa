"""Makes the request that the running task handles known to the history, as the author of its writes."""

from __future__ import annotations

from collections.abc import Awaitable

from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.request_info import READ_VERBS
from apiserver.meta.options import first
from apiserver.registry.history.authors import CURRENT_CALL, TEXT_LENGTH_MAX, groups_digest
from apiserver.registry.patch.apply.managed_fields import manager_or_user_agent
from apiserver.storage.history.changes import Author


class _AuthorOfCall:
    """The author of the writes of one request."""

    def __init__(self, call: ApiCall) -> None:
        self._call = call

    @property
    def audit_id(self) -> str:
        return _text(self._call.audit_id)

    def author(self) -> Author:
        call = self._call
        return Author(
            _text(call.user.name),
            groups_digest(call.user),
            _text(call.user_agent),
            _text(manager_or_user_agent(first(call.query, "fieldManager"), call.user_agent)),
            call.info.verb,
            call.info.subresource,
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
