"""Ends watches whose users are no longer authorized, within a bounded time.

Kubernetes authorizes a watch once, when it begins, and lets it continue until it times out, after up to an
hour. Other requests that run long (logs, exec, proxied ones) are not authorized again, as in Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from apiserver.auth.authz.attributes import Decision, PendingDecision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.middleware import authorizer_attributes
from apiserver.endpoints.watch_stream import WatchStreams
from apiserver.meta.errors import TooManyRequests

log = logging.getLogger(__name__)

INTERVAL_S: Final = 60.0
# Until all watches have been asked about that are open: as long as a webhook has by default for one question.
ANSWERED_WITHIN_S: Final = 30.0


class AuthorizationRecheck:
    """Authorizes all watches again at intervals, if a decision may have changed.

    A watch continues if it would be allowed to begin. If an authorizer fails, its failure policy decides: a
    webhook that hangs must not prolong watches of users who lost their permission.
    """

    def __init__(
        self,
        chain: AuthorizationChain,
        streams: WatchStreams,
        stamp: Callable[[], object],
        interval_s: float = INTERVAL_S,
        answered_within_s: float = ANSWERED_WITHIN_S,
    ) -> None:
        """stamp: returns a value that differs from the last one if decisions may have changed."""
        self._chain, self._streams, self._stamp = chain, streams, stamp
        self._interval_s, self._answered_within_s = interval_s, answered_within_s
        # Until when authorizers may answer that are asked about all watches now.
        self._deadline: float | None = None

    async def run(self) -> None:
        """Authorize watches until cancelled."""
        asked_about = self._stamp()
        while True:
            await asyncio.sleep(self._interval_s)
            stamp = self._stamp()
            if stamp == asked_about:
                continue
            self._deadline = self._new_deadline()
            try:
                ended = await self._streams.end_unauthorized(self._is_authorized)
            except Exception:  # It must not stop the server.
                log.exception("cannot authorize watches again")
                continue
            finally:
                self._deadline = None
            asked_about = stamp
            if ended:
                log.info("ended %d watches whose users are no longer authorized", ended)

    def _new_deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._answered_within_s

    def _is_authorized(self, call: ApiCall) -> bool | Awaitable[bool]:
        try:
            answer = self._chain(authorizer_attributes(call))
        except Exception:
            log.exception("cannot authorize a watch again")
            return False
        if isinstance(answer, Verdict):
            return answer.decision is Decision.ALLOW
        # Of watches that begin it is asked one by one, at any time.
        return _may_go_on(answer, self._new_deadline() if self._deadline is None else self._deadline)


async def _may_go_on(answer: PendingDecision, deadline: float) -> bool:
    try:
        verdict = await answer.decide(deadline)
    except TooManyRequests as refused:
        log.warning("ending a watch that cannot be authorized again: %s", refused)
        return False
    except Exception:
        log.exception("cannot authorize a watch again")
        return False
    if verdict.error and verdict.decision is not Decision.ALLOW:
        log.warning("ending a watch that cannot be authorized again: %s", verdict.error)
    return verdict.decision is Decision.ALLOW
