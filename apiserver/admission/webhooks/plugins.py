"""The two admission plugins that call webhooks: one to change a write, and one to validate it.

Source: k8s.io/apiserver, pkg/admission/plugin/webhook/{generic,mutating,validating}.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, NamedTuple

import orjson

from apiserver.admission.chain import AdmissionAttributes, Operation, Plugin
from apiserver.admission.dispatchers import ReviewOutcome, call_in_turn, call_together
from apiserver.admission.listers import Lister, refused
from apiserver.admission.patched_documents import completed
from apiserver.admission.responses import AdmissionDenied, InvalidAnswer
from apiserver.admission.reviewed_write import EquivalentResources, ReviewedWrite
from apiserver.admission.selection import Conditions, namespace_labels
from apiserver.admission.webhooks import admission_reviews
from apiserver.admission.webhooks.admission_reviews import ReviewResponse
from apiserver.admission.webhooks.configurations import WebhookConfigurations
from apiserver.admission.webhooks.webhook import AdmissionWebhook
from apiserver.audit.policy import AuditLevel
from apiserver.audit.request_audit import on_one_line
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.load.size_class import SizeClass, size_class
from apiserver.meta.brand import Brand
from apiserver.meta.errors import ApiError, BadRequest, InternalError
from apiserver.meta.vocabulary import Document, GroupResource
from apiserver.metrics.admission import ADMIT, VALIDATING
from apiserver.metrics.webhooks import WebhookMetrics
from apiserver.registry.served_resource import ServedResource
from apiserver.storage.event_loop_turns import in_turns
from apiserver.webhooks.errors import CallFailed
from apiserver.webhooks.failure_log import FailureLog
from apiserver.webhooks.review_server import ReviewCaller

log = logging.getLogger(__name__)

_NO_VERSION: Final = (
    "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
)
_ADMISSION_GROUP: Final = "admission"
_REGISTRATION_GROUP: Final = "admissionregistration"
_EXEMPT: Final = frozenset(
    {
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    }
)


class WebhookFailed(Exception):
    """A call of a webhook failed, or its response was invalid, so that its failurePolicy decides."""

    def __init__(self, webhook: AdmissionWebhook, why: str) -> None:
        super().__init__(f'failed calling webhook "{webhook.name}": {why}')


class WebhookDependencies(NamedTuple):
    """The collaborators that both plugins need.

    namespaces: to select by the labels of a write's namespace, and for conditions about it.
    """

    caller: ReviewCaller
    equivalents: EquivalentResources
    namespaces: Lister
    authorize: AuthorizationChain
    brand: Brand
    metrics: WebhookMetrics


class Invocation(NamedTuple):
    """A webhook that has to be called.

    resource: its version is used. description: the request of its review, without objects.
    """

    webhook: AdmissionWebhook
    resource: ServedResource
    description: Document


class WebhookPlugin(Plugin):
    """The common base of both plugins.

    step: as in metrics. audit_step: as in annotations of audit events.
    """

    step = ""
    audit_step = ""

    def __init__(self, configurations: WebhookConfigurations, collaborators: WebhookDependencies) -> None:
        self._webhooks = configurations
        self.configurations = (configurations,)
        self._with = collaborators
        self._failures = FailureLog(log, logging.WARNING)
        brand = collaborators.brand
        self._review_group = brand.group(_ADMISSION_GROUP)
        self._meta_group = brand.meta_group
        self._exempt_group = brand.group(_REGISTRATION_GROUP)
        self.annotation_prefix = f"{self.audit_step}.webhook.{self._review_group}/"

    def handles(self, resource: GroupResource, subresource: str, operation: Operation) -> bool:
        if resource.group == self._exempt_group and resource.resource in _EXEMPT:
            return False  # Else a webhook could prevent its own removal.
        same = {resource, *(each.group_resource for each in self._with.equivalents.of(resource))}
        return self._webhooks.may_concern(same, subresource, operation.value)

    # ---- which webhooks are asked

    async def _invocation(self, webhook: AdmissionWebhook, write: ReviewedWrite) -> Invocation | None:
        """Returns how a webhook has to be called; None if it does not have to be.

        Raises ApiError if the call is not possible for a reason outside the webhook.
        """
        resource = write.matching_resource(webhook.rules, with_equivalents=webhook.matches_equivalents)
        if resource is None:
            return None
        if not webhook.objects.is_empty and not any(map(webhook.objects.selects, write.labels())):
            return None
        if not await self._selects_namespace(webhook, write):
            return None
        description = write.description(resource, self._meta_group)
        if webhook.conditions and not await self._meets_conditions(webhook, write, resource, description):
            return None
        if webhook.has_side_effects and not write.attributes.allows_side_effects:
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        return Invocation(webhook, resource, description)

    async def _selects_namespace(self, webhook: AdmissionWebhook, write: ReviewedWrite) -> bool:
        """Returns whether the namespace of a write is selected; cluster-scoped objects always are.

        Raises NotFound if the namespace does not exist, and the storage's errors.
        """
        if webhook.namespaces.is_empty:
            return True
        labels = await namespace_labels(write, self._with.namespaces)
        return labels is None or webhook.namespaces.selects(labels)

    async def _meets_conditions(
        self,
        webhook: AdmissionWebhook,
        write: ReviewedWrite,
        resource: ServedResource,
        description: Document,
    ) -> bool:
        """Returns whether the match conditions are met."""
        namespaces = self._with.namespaces if webhook.sees_namespace else None
        conditions = Conditions(webhook.conditions, self._with.authorize, namespaces)
        began = perf_counter()
        outcome = await conditions.outcome(write, resource, description)
        failure = outcome.failure
        is_asked = not outcome.is_false and not failure
        is_refused = bool(failure) and webhook.is_required
        self._with.metrics.observe_conditions(
            webhook.name,
            self.step,
            write.attributes.operation.value,
            perf_counter() - began,
            errors=len(outcome.errors),
            is_excluded=not is_asked and not is_refused,
        )
        if is_refused:
            raise refused(write.attributes, write.new, failure)
        if failure:
            log.warning("not calling webhook %s: %s", webhook.name, failure)
        return is_asked

    # ---- asking one

    async def _ask(self, invocation: Invocation, write: ReviewedWrite, *, may_patch: bool) -> ReviewResponse:
        """Call a webhook."""
        webhook = invocation.webhook
        if webhook.version is None:
            raise WebhookFailed(webhook, _NO_VERSION)
        timeout_s = webhook.timeout_s
        if (remaining_s := write.attributes.remaining_s()) is not None:
            timeout_s = min(timeout_s, int(remaining_s) + 1)
        uid, request = await write.review_request(invocation.resource, invocation.description)
        body = admission_reviews.encode(self._review_group, webhook.version, request)
        try:
            with write.attributes.without_slot():
                document = await self._with.caller.post(webhook.client, body, timeout_s)
        except CallFailed as failed:
            raise WebhookFailed(webhook, f"failed to call webhook: {failed}") from None
        try:
            answer = admission_reviews.read(
                document, self._review_group, webhook.version, uid, may_patch=may_patch
            )
        except InvalidAnswer as invalid:
            raise WebhookFailed(webhook, f"received invalid webhook response: {invalid}") from None
        for key, value in answer.audit_annotations.items():
            write.attributes.annotate(f"{webhook.name}/{key}", value)
        return answer

    def _responded(self, webhook: AdmissionWebhook) -> None:
        """Note that the response of a webhook could be used."""
        self._failures.responded(_key(webhook), f'webhook "{webhook.name}"')

    def _failed(
        self, failure: WebhookFailed, webhook: AdmissionWebhook, turn: str, write: ReviewedWrite
    ) -> ApiError | None:
        """Returns the error that refuses a write because a webhook failed; None if the write is allowed.

        turn: the webhook's round and index, as in annotations.
        """
        if webhook.is_required:
            return InternalError.of(str(failure))
        why = f"{failure}; the request is allowed because failurePolicy is Ignore"
        self._failures.failed(_key(webhook), why)
        self._with.metrics.failed_open(webhook.name, self.step)
        write.attributes.annotate(f"failed-open.{self.annotation_prefix}{turn}", webhook.name)
        return None


# ---- the two plugins


class MutatingAdmissionWebhook(WebhookPlugin):
    """Calls webhooks one after the other; each sees the changes of those before it.

    A webhook with `reinvocationPolicy: IfNeeded` is called again if a later one or another plugin has changed
    the object.
    """

    name = "MutatingAdmissionWebhook"
    has_rounds = True
    step = ADMIT
    audit_step = "mutation"

    async def mutate(
        self, attributes: AdmissionAttributes, new: Document, old: Document | None
    ) -> Sequence[str]:
        return await self._ask_in_turn(attributes, new, old)

    async def mutate_deletion(self, attributes: AdmissionAttributes, old: Document | None) -> Sequence[str]:
        return await self._ask_in_turn(attributes, None, old)

    async def _ask_in_turn(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str]:
        write = ReviewedWrite(attributes, self._with.equivalents, new, old)
        assert attributes.rounds is not None
        rounds = attributes.rounds

        async def call(webhook: AdmissionWebhook, index: int) -> ReviewOutcome | None:
            invocation = await self._invocation(webhook, write)
            if invocation is None:
                return None
            return await self._call(invocation, write, f"round_{int(rounds.is_second)}_index_{index}")

        return await call_in_turn(await self._webhooks.current(), self, write, call)

    async def _call(self, invocation: Invocation, write: ReviewedWrite, turn: str) -> ReviewOutcome:
        """Call one webhook, and apply its patch to the object.

        turn: the webhook's round and index, as in annotations.
        """
        webhook, operation = invocation.webhook, write.attributes.operation
        began = perf_counter()
        warnings: Sequence[str] = ()
        refusal: ApiError | None = None
        has_changed = False
        try:
            answer = await self._ask(invocation, write, may_patch=True)
            warnings = answer.warnings
            if not answer.is_allowed:
                refusal = _denied(webhook, answer)
            elif answer.patch:
                has_changed = await self._patch(invocation, write, answer)
                self._annotate_patch(invocation, write, answer, turn)
            self._responded(webhook)
        except WebhookFailed as failure:
            refusal = self._failed(failure, webhook, turn, write)
        except ApiError as error:
            refusal = error
        finally:
            # Also if the time of the request is up meanwhile.
            took = perf_counter() - began
            write.attributes.waited("mutating-webhook", took)
        if write.attributes.audit is not None:
            told = {"configuration": webhook.configuration, "webhook": webhook.name, "mutated": has_changed}
            write.attributes.annotate(f"{self.annotation_prefix}{turn}", orjson.dumps(told).decode())
        self._with.metrics.observe(webhook.name, self.step, operation.value, took, refusal)
        return ReviewOutcome(warnings, refusal, has_changed)

    def _annotate_patch(
        self, invocation: Invocation, write: ReviewedWrite, answer: ReviewResponse, turn: str
    ) -> None:
        """Record an applied patch in the audit event."""
        audit = write.attributes.audit
        if audit is not None and audit.wants_request and answer.patch.strip() not in (b"null", b"[]"):
            webhook = invocation.webhook
            told = {
                "configuration": webhook.configuration,
                "webhook": webhook.name,
                "patch": orjson.Fragment(on_one_line(answer.patch)),
                "patchType": answer.patch_type,
            }
            key = f"patch.webhook.{self._review_group}/{turn}"
            write.attributes.annotate(key, orjson.dumps(told).decode(), AuditLevel.REQUEST)

    async def _patch(self, invocation: Invocation, write: ReviewedWrite, answer: ReviewResponse) -> bool:
        """Apply the patch of a response."""
        from apiserver.registry.patch import json_patch

        size = size_class(len(answer.patch))
        try:
            operations = await write.offload.run_begun(size, admission_reviews.operations, answer)
            json_patch.check(operations)
        except InvalidAnswer as invalid:
            raise WebhookFailed(invocation.webhook, str(invalid)) from None
        except (json_patch.MalformedJsonPatch, json_patch.TooManyOperations) as error:
            why = f"received undecodable patch in webhook response: {error}"
            raise WebhookFailed(invocation.webhook, why) from None
        if not operations:
            return False
        if write.new is None:
            raise InternalError.of(
                f'admission webhook "{invocation.webhook.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        encoded = await write.encoded(write.new, invocation.resource, is_old=False)
        view = write.attributes.view
        kind = invocation.resource if view is None else view.kind
        kind.compile()
        size = max(size, size_class(len(encoded)), *map(kind.size_of_defaults, (encoded, answer.patch)))
        size = SizeClass.HUGE if json_patch.may_multiply(operations) else size
        patched = await write.offload.run_begun(size, _patched, encoded, operations, kind)
        return await write.take_over(patched, invocation.resource)


def _patched(encoded: bytes, operations: list[Any], kind: ServedResource) -> Document:
    """Returns a document with a patch applied, checked, pruned and completed. Raises InternalError."""
    from apiserver.registry.patch import json_patch

    try:
        document = json_patch.apply(orjson.loads(encoded), operations)
    except json_patch.CannotApply as error:
        raise InternalError.of(str(error)) from None
    return completed(document, kind)


class ValidatingAdmissionWebhook(WebhookPlugin):
    """Calls webhooks concurrently; if several refuse, the first of them in order determines the response."""

    name = "ValidatingAdmissionWebhook"
    step = VALIDATING
    audit_step = "validating"

    async def validate_deletion(
        self, attributes: AdmissionAttributes, old: Document | None
    ) -> Sequence[str] | None:
        return await self.validate(attributes, None, old)

    async def validate(
        self, attributes: AdmissionAttributes, new: Document | None, old: Document | None
    ) -> Sequence[str] | None:
        write = ReviewedWrite(attributes, self._with.equivalents, new, old)
        invocations = [
            found
            async for webhook in in_turns(await self._webhooks.current())
            if (found := await self._invocation(webhook, write)) is not None
        ]
        if not invocations:
            return None
        began = perf_counter()
        try:
            return await call_together(invocations, partial(self._call, write))
        finally:
            # They are asked at the same time: the write has waited for all of them together.
            attributes.waited("validating-webhook", perf_counter() - began)

    async def _call(self, write: ReviewedWrite, invocation: Invocation, index: int) -> ReviewOutcome:
        """Call one webhook. index: its index among those that are called."""
        webhook, operation = invocation.webhook, write.attributes.operation
        began = perf_counter()
        warnings: Sequence[str] = ()
        refusal: ApiError | None = None
        try:
            answer = await self._ask(invocation, write, may_patch=False)
            warnings = answer.warnings
            if not answer.is_allowed:
                refusal = _denied(webhook, answer)
            self._responded(webhook)
        except WebhookFailed as failure:
            refusal = self._failed(failure, webhook, f"round_0_index_{index}", write)
        except ApiError as error:
            refusal = error
        took = perf_counter() - began
        self._with.metrics.observe(webhook.name, self.step, operation.value, took, refusal)
        return ReviewOutcome(warnings, refusal)


def _key(webhook: AdmissionWebhook) -> tuple[str, str]:
    return webhook.configuration, webhook.name


def _denied(webhook: AdmissionWebhook, answer: ReviewResponse) -> AdmissionDenied:
    return AdmissionDenied(f'admission webhook "{webhook.name}"', answer.result)
