"""Questions of authorization that take long are answered one in each round of the event loop."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import cast

from apiserver.authz.attributes import Attributes, AuthorizationChain, Decision, Verdict
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.middleware import authorize
from apiserver.endpoints.request_info import RequestInfo
from apiserver.vocabulary import UserInfo
from storage.turns import TURN_S


class _Call:
    """What authorization looks at."""

    info = RequestInfo("GET", "/version", "get", name="a")

    def __init__(self, user: str) -> None:
        self.user = UserInfo(user)


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

    authorized = authorize(AuthorizationChain([authorizer]))(handle)
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
