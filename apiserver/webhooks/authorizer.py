"""Authorizes requests by a webhook, and caches its decisions for a while.

Equal concurrent requests share one call. The number of requests that wait for the webhook is bounded, and
each user has a share of it, since the webhook may hang.
Source: k8s.io/apiserver, plugin/pkg/authorizer/webhook/webhook.go.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

import orjson

from apiserver.auth.authz.access_reviews import (
    InvalidAnswer,
    expression_request,
    read_verdict,
    review,
    review_spec,
)
from apiserver.auth.authz.attributes import NO_OPINION, Attributes, Decision, PendingDecision, Verdict
from apiserver.auth.authz.configuration import WebhookSettings
from apiserver.auth.authz.match_conditions import (
    COST_MAX,
    COST_ON_LOOP_MAX,
    Condition,
    ConditionsFailed,
    are_met,
    compile_condition,
)
from apiserver.load.size_class import TakesLong
from apiserver.load.switch_interval import compute_in_thread
from apiserver.meta.errors import Timeout, TooManyRequests
from apiserver.meta.expiring_cache import ExpiringCache
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.failure_log import FailureLog
from apiserver.webhooks.review_server import ReviewServer

log = logging.getLogger(__name__)

# As in Kubernetes.
ANSWERS_MAX: Final = 8_192
# Characters of the reasons in them, each of which takes up to four bytes.
REASONS_LENGTH_MAX: Final = 2 * 1024 * 1024
# Characters of what a caller chooses: answers to longer questions are not remembered.
REMEMBERED_CHARACTERS_MAX: Final = 10_000
# All attempts to get an answer together: it is as much time as requests have, but for those that may run as
# long as they like.
ANSWERED_WITHIN_S: Final = 60.0
# Different questions that wait for an answer.
WAITING_MAX: Final = 1_000


class AuthorizerObserver(Protocol):
    """Counts the calls and failures of an authorizer: see `metrics.authorization`. name: of the
    authorizer.
    """

    def asked(self, name: str, result: str, seconds: float) -> None:
        """Counts a finished attempt. result: success, timeout, error or canceled."""

    def failed_open(self, name: str, result: str) -> None:
        """Counts a request that other authorizers decide, because the webhook failed."""

    def matched(self, name: str, seconds: float, *, is_excluded: bool, is_error: bool) -> None:
        """Counts an evaluation of the authorizer's match conditions."""


class WaitingSlots(Protocol):
    """The slots of requests that wait for the webhook: see `load.user_shares.SharedPool`."""

    def take(self, user: str) -> bool:
        """Returns whether a user may have another slot, and takes it."""

    def give_back(self, user: str) -> None: ...


class _PendingReview(NamedTuple):
    """A pending review of one request."""

    key: bytes
    body: bytes
    may_be_remembered: bool
    holder: str


class _Pending:
    """A call of the webhook that is under way. waiters: the number of requests that wait for it."""

    def __init__(self, task: asyncio.Task[Verdict]) -> None:
        self.task = task
        self.waiters = 0


class AuthorizationWebhook(NamedTuple):
    """A webhook of the authorization configuration. group: that of SubjectAccessReview, in the brand's
    domain.
    """

    name: str
    settings: WebhookSettings
    server: ReviewServer
    group: str


class WebhookAuthorizer:
    """Authorizes requests by a webhook, as an `Authorizer`. clock: seconds since some time.

    Raises InvalidCondition.
    """

    def __init__(
        self,
        webhook: AuthorizationWebhook,
        observer: AuthorizerObserver,
        places: WaitingSlots,
        holder_of: Callable[[UserInfo], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """places: the places of waiting requests, `WAITING_MAX` of them.

        holder_of: returns the name under which a user shares them.
        """
        self._places, self._holder_of = places, holder_of
        self._name, self._settings = webhook.name, webhook.settings
        self._server, self._group = webhook.server, webhook.group
        self._observer, self._clock = observer, clock
        self._conditions: Sequence[Condition] = tuple(map(compile_condition, webhook.settings.conditions))
        self._known: ExpiringCache[Verdict] = ExpiringCache(
            ANSWERS_MAX, clock, lambda verdict: len(verdict.reason), REASONS_LENGTH_MAX
        )
        self._pending: dict[bytes, _Pending] = {}
        self._failures = FailureLog(log, logging.ERROR, clock)

    def __call__(self, attributes: Attributes) -> Verdict | PendingDecision:
        spec = review_spec(attributes)
        if self._conditions:
            began = time.perf_counter()
            try:
                is_met = are_met(self._conditions, expression_request(spec), COST_ON_LOOP_MAX)
            except TakesLong:
                return PendingDecision(partial(self._decide_slowly, spec, attributes))
            except ConditionsFailed as failed:
                return self._failed_conditions(began, str(failed))
            if not self._is_concerned(began, is_met):
                return NO_OPINION
        return self._ask(spec, attributes)

    # ---- conditions

    async def _decide_slowly(self, spec: Document, attributes: Attributes, deadline: float) -> Verdict:
        """Decides after evaluating long match conditions in a thread."""
        began = time.perf_counter()
        try:
            is_met = await compute_in_thread(are_met, self._conditions, expression_request(spec), COST_MAX)
        except TakesLong:
            return self._failed_conditions(began, "cel evaluation error: actual cost limit exceeded")
        except ConditionsFailed as failed:
            return self._failed_conditions(began, str(failed))
        if not self._is_concerned(began, is_met):
            return NO_OPINION
        answer = self._ask(spec, attributes)
        return answer if isinstance(answer, Verdict) else await answer.decide(deadline)

    def _is_concerned(self, began: float, is_met: bool) -> bool:
        took_s = time.perf_counter() - began
        self._observer.matched(self._name, took_s, is_excluded=not is_met, is_error=False)
        return is_met

    def _failed_conditions(self, began: float, error: str) -> Verdict:
        self._observer.matched(self._name, time.perf_counter() - began, is_excluded=False, is_error=True)
        return self._failure(error)

    # ---- asking

    def _ask(self, spec: Document, attributes: Attributes) -> Verdict | PendingDecision:
        document = review(self._group, self._settings.version, spec)
        body = orjson.dumps(document)
        key = hashlib.sha256(body).digest()
        if (verdict := self._known.get(key)) is not None:
            return verdict
        may_be_remembered = _length(attributes) < REMEMBERED_CHARACTERS_MAX
        question = _PendingReview(key, body, may_be_remembered, self._holder_of(attributes.user))
        return PendingDecision(partial(self._answer, question))

    async def _answer(self, question: _PendingReview, deadline: float) -> Verdict:
        """Waits for the response to a call, which is cancelled when no request waits for it.

        A webhook without a response by the deadline has failed, and its failure policy decides.
        Raises TooManyRequests, which is not a failure of the webhook: a client that sends too many requests
        must not bypass a webhook that would deny them.
        """
        pending = self._pending.get(question.key)
        if pending is None:
            if not self._places.take(question.holder):
                raise TooManyRequests
            asking = asyncio.create_task(self._call(question), name=f"authorization-webhook {self._name}")
            pending = self._pending[question.key] = _Pending(asking)
            asking.add_done_callback(partial(self._forget, question, pending))
        pending.waiters += 1
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.shield(pending.task)
        except TimeoutError:
            return self._failure(f"the webhook {self._name} has not responded in time")
        finally:
            pending.waiters -= 1
            if not pending.waiters and not pending.task.done():
                self._forget(question, pending)
                pending.task.cancel()

    def _forget(self, question: _PendingReview, pending: _Pending, _: object = None) -> None:
        if self._pending.get(question.key) is pending:
            del self._pending[question.key]
            self._places.give_back(question.holder)

    async def _call(self, question: _PendingReview) -> Verdict:
        settings, result = self._settings, "canceled"
        began = time.perf_counter()
        try:
            within = asyncio.get_running_loop().time() + ANSWERED_WITHIN_S
            answer = await self._server.ask(question.body, within, math.ceil(settings.timeout_s))
            verdict = read_verdict(answer, self._group, settings.version)
            result = "success"
            self._failures.responded(self._name, f"the authorization webhook {self._name}")
        except (CallFailed, InvalidAnswer, Timeout) as failed:
            is_timeout = isinstance(failed, Timeout) or (isinstance(failed, CallFailed) and failed.is_timeout)
            result = "timeout" if is_timeout else "error"
            why = f"cannot call the authorization webhook {self._name}: {failed}"
            self._failures.failed(self._name, why)
            if not settings.fails_closed:
                self._observer.failed_open(self._name, result)
            return self._failure(str(failed))
        finally:
            self._observer.asked(self._name, result, time.perf_counter() - began)
        self._remember(question, verdict)
        return verdict

    def _remember(self, question: _PendingReview, verdict: Verdict) -> None:
        is_allowed = verdict.decision is Decision.ALLOW
        ttl_s = self._settings.authorized_ttl_s if is_allowed else self._settings.unauthorized_ttl_s
        if question.may_be_remembered:
            self._known.put(question.key, verdict, self._clock() + ttl_s)

    def _failure(self, error: str) -> Verdict:
        decision = Decision.DENY if self._settings.fails_closed else Decision.NO_OPINION
        return Verdict(decision, "", error)


def _length(attributes: Attributes) -> int:
    """Returns the length of the parts of a request that its client has chosen."""
    return sum(len(each) for each in attributes[1:] if isinstance(each, str))
