"""Authenticates tokens by a webhook, to which a TokenReview is posted.

Source: k8s.io/apiserver, plugin/pkg/authenticator/token/webhook.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

import orjson

from apiserver.auth.authn.chain import Identity, authenticated
from apiserver.auth.authn.token_cache import TokenResult
from apiserver.meta.vocabulary import UserInfo
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.failure_log import FailureLog
from apiserver.webhooks.review_server import ReviewServer

log = logging.getLogger(__name__)

_NAME: Final = "the token authentication webhook"
VERSIONS: Final = ("v1", "v1beta1")
# A longer reason is cut, in characters.
REASON_LENGTH_MAX: Final = 1_024


class TokenReviews:
    """Authenticates tokens by TokenReviews of a webhook.

    api_version: that of the sent and returned reviews. audiences: this server's own, which tokens have if the
    webhook returns no audiences.
    """

    def __init__(self, server: ReviewServer, api_version: str, audiences: Sequence[str]) -> None:
        self._server, self._api_version, self._audiences = server, api_version, tuple(audiences)
        self._failures = FailureLog(log, logging.ERROR)

    async def look_up(self, token: str, audiences: Sequence[str]) -> TokenResult:
        """Asks the webhook for the user of a token.

        The result is not cached if the webhook does not respond, or responds with an error.
        """
        review = {
            "kind": "TokenReview",
            "apiVersion": self._api_version,
            "metadata": {},
            "spec": {"token": token, "audiences": list(audiences)},
        }
        try:
            # A token that is not UTF-8 belongs to no user.
            body = orjson.dumps(review)
        except TypeError:
            return TokenResult(None, is_kept=False)
        try:
            result = self._answer(await self._server.ask(body), audiences)
        except CallFailed as failed:
            # It may quote what it was sent.
            why = str(failed).replace(token, "<token>")
            self._failures.failed(_NAME, f"{_NAME} failed: {why}")
            return TokenResult(None, why, is_kept=False)
        self._failures.responded(_NAME, _NAME)
        return result

    def _answer(self, document: Any, audiences: Sequence[str]) -> TokenResult:
        """Returns the result in a response."""
        if not isinstance(document, dict) or (
            document.get("kind") not in (None, "", "TokenReview")
            or document.get("apiVersion") not in (None, "", self._api_version)
        ):
            raise CallFailed(f"the response is not a TokenReview of {self._api_version}")
        status = document.get("status")
        status = {} if status is None else status
        if not isinstance(status, dict):
            raise CallFailed("the response has no status")
        is_authenticated = status.get("authenticated", False)
        if not isinstance(is_authenticated, bool):
            raise CallFailed("status.authenticated is not true or false")
        meant = _texts(status, "audiences") or self._audiences
        shared = tuple(each for each in audiences if each in meant)
        if not shared:
            return TokenResult(None)
        if not is_authenticated:
            reason = _text(status, "error")[:REASON_LENGTH_MAX]
            return TokenResult(None, reason, is_kept=not reason)
        return TokenResult(Identity(_user(status.get("user")), shared))


def _user(found: Any) -> UserInfo:
    """Returns the user in a response."""
    if not isinstance(found, dict):
        raise CallFailed("the response has no status.user")
    name, extra = _text(found, "username"), found.get("extra") or {}
    if not name:
        raise CallFailed("the response has no status.user.username")
    if not isinstance(extra, dict):
        raise CallFailed("status.user.extra is not an object")
    user = authenticated(name, _texts(found, "groups"), _text(found, "uid"))
    pairs = tuple((key, _texts(extra, key)) for key in sorted(extra))
    return UserInfo(user.name, user.groups, user.uid, pairs)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name) or ""
    if not isinstance(value, str):
        raise CallFailed(f"{name} in the response is not a string")
    return value


def _texts(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    values = fields.get(name) or []
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise CallFailed(f"{name} in the response is not a list of strings")
    return tuple(values)
