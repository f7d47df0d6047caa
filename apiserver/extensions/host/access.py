"""Authenticators and authorizers that are functions of extensions."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from apiserver.auth.authn.chain import Identity, authenticated
from apiserver.auth.authn.token_cache import TokenResult
from apiserver.auth.authz.access_reviews import review_spec
from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Decision, PendingDecision, Verdict
from apiserver.extensions.hooks import OnError
from apiserver.extensions.host.hooks import ExtensionHook
from apiserver.extensions.host.runner import HookFailed
from apiserver.meta.vocabulary import UserInfo

# Longer reasons are cut, in characters.
REASON_LENGTH_MAX: Final = 1_024


class HookTokens:
    """Authenticates tokens by a function of an extension. audiences: those of the server."""

    def __init__(self, hook: ExtensionHook, audiences: Sequence[str]) -> None:
        self._hook, self._audiences = hook, tuple(audiences)

    async def look_up(self, token: str, audiences: Sequence[str]) -> TokenResult:
        """Returns the user of a token. A failure of the function is not cached."""
        shared = tuple(each for each in audiences if each in self._audiences)
        if not shared:
            return TokenResult(None)
        try:
            token.encode()
        except UnicodeEncodeError:  # The header is not UTF-8.
            return TokenResult(None)
        try:
            result = await self._hook.call({"token": token, "audiences": list(shared)})
            if (reason := _denial(result)) is not None:
                is_shown = reason and token not in reason
                why = reason if is_shown else f'extension "{self._hook.extension}" denied the token'
                return TokenResult(None, why[:REASON_LENGTH_MAX], is_kept=False)
            if (user := result.get("user")) is None:
                return TokenResult(None)
            if (checked := _user_info(user)) is None:
                raise self._hook.invalid("has returned a user with missing fields or wrong types")
        except HookFailed as failed:
            why = str(failed) if self._hook.info.on_error is OnError.FAIL else ""
            return TokenResult(None, why[:REASON_LENGTH_MAX], is_kept=False)
        return TokenResult(Identity(checked, shared))


class HookAuthorizer:
    """Authorizes requests by a function of an extension, as an `Authorizer`."""

    def __init__(self, hook: ExtensionHook) -> None:
        self._hook = hook

    def __call__(self, attributes: Attributes) -> PendingDecision:
        return PendingDecision(partial(self._decide, attributes))

    async def _decide(self, attributes: Attributes, deadline: float) -> Verdict:
        remaining_s = None if deadline == math.inf else deadline - asyncio.get_running_loop().time()
        try:
            result = await self._hook.call({"attributes": review_spec(attributes)}, remaining_s)
        except HookFailed as failed:
            return self._failed(str(failed))
        if (reason := _denial(result)) is not None:
            return Verdict(Decision.DENY, reason[:REASON_LENGTH_MAX])
        match result.get("allowed"):
            case True:
                return Verdict(Decision.ALLOW)
            case False:
                return Verdict(Decision.DENY, f'extension "{self._hook.extension}" denied the request')
            case _:
                return NO_OPINION

    def _failed(self, why: str) -> Verdict:
        if self._hook.info.on_error is OnError.FAIL:
            return Verdict(Decision.DENY, why[:REASON_LENGTH_MAX])
        return Verdict(Decision.NO_OPINION, error=why[:REASON_LENGTH_MAX])


def _denial(result: Mapping[str, Any]) -> str | None:
    """Returns the reason of a function that has raised `Denied`; None if it has not."""
    denied = result.get("denied")
    return None if not isinstance(denied, dict) else str(denied.get("message", ""))


def _user_info(user: Any) -> UserInfo | None:
    """Returns the user in a result of a worker; None if the result is invalid."""
    match user:
        case {"username": str(name), "uid": str(uid), "groups": list(groups), "extra": dict(extra)} if name:
            lists = [groups, *extra.values()]
        case _:
            return None
    if not all(isinstance(each, list) and all(isinstance(text, str) for text in each) for each in lists):
        return None
    extra_items = tuple((key, tuple(values)) for key, values in extra.items())
    return authenticated(name, groups, uid)._replace(extra=extra_items)
