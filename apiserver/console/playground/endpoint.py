"""Answers requests for /console/cel."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.expression_authorizer import UserAuthorizer, evaluated
from apiserver.cel.admission import OBJECT, OLD_OBJECT
from apiserver.cel.compatibility_version import CompatibilityVersion
from apiserver.cel.library.authorizer import CheckAttributes, DecisionValue
from apiserver.cel.types import DYN, Type
from apiserver.cel.values import EvaluationError
from apiserver.console.playground.answers import Answer, Effort
from apiserver.console.playground.policy_expression import (
    ObjectType,
    described,
    evaluate_policy,
    variables_of,
)
from apiserver.console.playground.question import Kind, Question, question_of
from apiserver.console.playground.rule_expression import evaluate_rule
from apiserver.console.query_bodies import read_sized_query
from apiserver.controllers.policy_type_checking.schema_types import type_of
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import BodyParser
from apiserver.endpoints.handlers.reviews import user_info
from apiserver.endpoints.responses import send_document
from apiserver.load.offload import on_event_loop
from apiserver.load.size_class import SizeClass
from apiserver.meta.errors import BadRequest
from apiserver.registry.served_resource import ServedResource, ServedTable
from apiserver.schema.extensions import Extensions

_NOT_OF_OTHERS: Final = "the permissions of service accounts are not available here"


class OwnAuthorizer(NamedTuple):
    """Decides what the caller may do, and does not tell what others may do."""

    caller: UserAuthorizer

    def decide(self, attributes: CheckAttributes) -> DecisionValue:
        """Returns the decision about a check. Raises EvaluationError, DecisionNeeded."""
        if attributes.service_account is not None:
            raise EvaluationError(_NOT_OF_OTHERS)
        return self.caller.decide(attributes)


class Playground:
    """The endpoint. version: the parts of the language that new expressions may use."""

    def __init__(
        self,
        parser: BodyParser,
        served: ServedTable,
        authorize: AuthorizationChain,
        version: CompatibilityVersion,
        extensions: Extensions,
    ) -> None:
        self._parser, self._served, self._authorize = parser, served, authorize
        self._version, self._extensions = version, extensions

    def prepare(self) -> None:
        """Make what all expressions need: the declarations of CEL's libraries."""
        evaluate_policy(Question(Kind.POLICY, "true"), {}, None, self._version, Effort(is_bounded=False))

    async def respond(self, call: ApiCall) -> None:
        """Answer a question. Raises BadRequest, TooManyRequests, and as `read_sized_query`."""
        document, size = await read_sized_query(call, self._parser)
        question = question_of(document)
        resource = None if question.resource is None else await self._resource(call, question)
        answer = self._rule_answer if question.kind is Kind.RULE else self._policy_answer
        evaluate = answer(call, question, resource)
        gone = threading.Event()

        def work(is_bounded: bool) -> Answer:
            return evaluate(Effort(is_bounded, gone.is_set))

        try:
            found = await evaluated(lambda: call.offload.run_evaluation(size, work))
        finally:
            gone.set()  # The thread does not learn from the cancellation that the client is gone.
        await send_document(call, found.body())

    async def _resource(self, call: ApiCall, question: Question) -> ServedResource:
        """Returns the resource that a question names, with its schema ready. Raises BadRequest."""
        asked = question.resource
        assert asked is not None
        found = self._served.find(*asked)
        if found is None:
            raise BadRequest(f"resource: the server does not serve {asked}")
        if question.kind is Kind.RULE and found.definition_schema is None:
            raise BadRequest(f"resource: {asked} is not a custom resource, so it has no rules")
        for each in found.preparations:
            if each.is_due:
                await call.offload.run_begun(SizeClass.HUGE, each.prepare)
        return found

    def _rule_answer(
        self, call: ApiCall, question: Question, resource: ServedResource | None
    ) -> Callable[[Effort], Answer]:
        schema = None
        if resource is not None:
            assert resource.definition_schema is not None
            schema = resource.definition_schema()
        return lambda effort: evaluate_rule(question, schema, self._extensions, self._version, effort)

    def _policy_answer(
        self, call: ApiCall, question: Question, resource: ServedResource | None
    ) -> Callable[[Effort], Answer]:
        types: Mapping[str, Type] | None = None
        if resource is not None:
            own = type_of(resource.schema(), resource.kind) or DYN
            types = {OBJECT: own, OLD_OBJECT: own}
        authorizer = OwnAuthorizer(UserAuthorizer(on_event_loop(self._authorize), call.user))
        type_ = None if resource is None else ObjectType.of(resource)
        request = {**described(question, type_, user_info(call.user)), **(question.request or {})}
        known = variables_of(question, request, authorizer)
        return lambda effort: evaluate_policy(question, known, types, self._version, effort)
