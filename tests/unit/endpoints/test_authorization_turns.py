"""Questions of authorization that take long are answered one in each round of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from time import monotonic
from typing import cast

from apiserver.auth.authz.attributes import Attributes, Decision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.middleware import QUICK_ANSWERS, authorize
from apiserver.meta.vocabulary import RequestInfo, UserInfo
from apiserver.metrics.authorization import AuthorizationMetrics
from apiserver.storage.event_loop_turns import TURN_S, Turn
from apiserver.tracing.request_trace import RequestTrace
from tests.support.eventually import WITHIN_S


class _Call:
    """What authorization looks at."""

    info = RequestInfo("GET", "/version", "get", name="a")
    audit = None

    def __init__(self, user: str) -> None:
        self.user, self.trace = UserInfo(user), RequestTrace("audit")


async def test_users_whose_authorization_takes_long_take_turns() -> None:
    asked: list[str] = []

    def authorizer(attributes: Attributes) -> Verdict:
        asked.append(attributes.user.name)
        ends_at = monotonic() + (2 * TURN_S if attributes.user.name == "bound" else 0)
        while monotonic() < ends_at:
            pass
        return Verdict(Decision.ALLOW)

    async def handle(_: ApiCall) -> None:
        pass

    authorized = authorize(AuthorizationChain([authorizer]), AuthorizationMetrics("server"))(handle)
    await authorized(cast(ApiCall, _Call("bound")))
    asked.clear()
    questions = [asyncio.ensure_future(authorized(cast(ApiCall, _Call("bound")))) for _ in range(20)]
    counts = []
    while len(asked) < 20:
        await asyncio.sleep(0)
        counts.append(len(asked))
    await asyncio.gather(*questions)
    assert all(after - before <= 1 for before, after in zip([0, *counts], counts, strict=False))
    await authorized(cast(ApiCall, _Call("other")))
    assert asked[-1] == "other"


async def test_users_whose_authorization_took_long_once_need_no_turns_for_ever() -> None:
    pause_s = 2 * TURN_S

    def authorizer(_: Attributes) -> Verdict:
        ends_at = monotonic() + pause_s
        while monotonic() < ends_at:
            pass
        return Verdict(Decision.ALLOW)

    async def handle(_: ApiCall) -> None:
        pass

    def waits() -> bool:
        """Whether a request waits for its turn when that of this round is over."""
        turn = Turn()
        while not turn.is_over():
            pass
        request = cast(Coroutine[object, None, None], authorized(cast(ApiCall, _Call("user"))))
        try:
            request.send(None)
        except StopIteration:
            return False
        request.close()
        return True

    authorized = authorize(AuthorizationChain([authorizer]), AuthorizationMetrics("server"))(handle)
    await authorized(cast(ApiCall, _Call("user")))
    pause_s = 0
    assert waits()

    async def needs_no_turns() -> bool:
        for _ in range(QUICK_ANSWERS):
            await authorized(cast(ApiCall, _Call("user")))
        return not waits()

    # On a busy machine one of the answers may have taken long, too.
    async with asyncio.timeout(WITHIN_S):
        while not await needs_no_turns():
            await asyncio.sleep(0)
