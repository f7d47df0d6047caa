"""Handles POST of reviews, which ask who a user is and what the user may do, and are not stored.

Source: k8s.io/kubernetes, pkg/registry/{authentication,authorization}. Rows A14, I14.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final, TypeAlias

from apiserver.auth.authn.chain import Identity
from apiserver.auth.authz.attributes import ANY_VERSION, Attributes, Decision, PendingDecision, Verdict
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.rbac.authorizer import RBAC_ALLOWED
from apiserver.auth.authz.rbac.explanation import allowing, own_near_misses, shown
from apiserver.auth.authz.rbac.policy import RbacPolicy
from apiserver.auth.authz.rule_resolver import RuleResolver, RuleSet, TooManyWords
from apiserver.catalogue import authentication, authorization
from apiserver.catalogue.authorization.access_reviews import (
    SELECTOR_FIELDS,
    readable_field_selector,
    readable_label_selector,
    unread_selectors,
    validate_local_review,
    validate_review,
    validate_self_review,
)
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.endpoints.handlers.virtual_kinds import VirtualKinds, virtual_object
from apiserver.endpoints.responses import send_object
from apiserver.load.size_class import SizeClass, TakesLong, size_class_of_document
from apiserver.meta import timestamps
from apiserver.meta.errors import BadRequest, Invalid, Unauthorized
from apiserver.meta.field_errors import Errors
from apiserver.meta.vocabulary import Document, GroupKind, UserInfo
from apiserver.registry.served_resource import ServedResource
from apiserver.registry.stored_object import StoredObject

# (whether it is bounded) -> the review with its answer in `status`. It may run in a thread. Raises TakesLong.
Answer: TypeAlias = Callable[[bool], Document]
# (call, the review that was sent, its size)
Review: TypeAlias = Callable[[ApiCall, Document, SizeClass], Awaitable[Answer]]
# (token, audiences) -> whose it is, and for which of the audiences. Raises Unauthorized.
TokenReviewer: TypeAlias = Callable[[str, Sequence[str]], Awaitable[Identity]]
# Words of rules that are listed on the event loop: a millisecond. Most users have fewer.
WORDS_ON_LOOP_MAX: Final = 3_000
_BAD_TOKEN: Final = "invalid bearer token"  # noqa: S105  a message


def review_handlers(
    virtual: VirtualKinds, reviews: Mapping[str, Review]
) -> Mapping[str, Mapping[str, Handler]]:
    """Returns the handlers of POST, by definition and verb. reviews: of documents of v1, by definition."""

    def handler(review: Review) -> Handler:
        async def create(call: ApiCall) -> None:
            resource = call.resource
            document, options, encoder = await virtual.read_posted(call, resource)
            await virtual.admit(call, resource, document["metadata"].get("name", ""), document, options)
            # A selector in it may have ten thousands of requirements.
            size = size_class_of_document(document)
            document = await call.offload.run_begun(size, resource.codec.to_hub, document)
            answer = await review(call, document, size)
            resource.compile()
            # An answer of megabytes is made, encoded and forgotten in one turn of a thread.
            made = await call.offload.run_bounded(size, partial(_encoded, resource, answer))
            await send_object(call, encoder, made, HTTPStatus.CREATED)

        return create

    return {definition: {"create": handler(review)} for definition, review in reviews.items()}


def _encoded(resource: ServedResource, answer: Answer, is_bounded: bool) -> StoredObject:
    """Encode a review."""
    return virtual_object(resource, resource.codec.from_hub(answer(is_bounded)))


def all_reviews(
    authorizers: AuthorizationChain,
    policy: RbacPolicy | None,
    rules: RuleResolver,
    token_reviewer: TokenReviewer,
    clock: Callable[[], float],
    *,
    has_selectors: bool,
) -> Mapping[str, Review]:
    """Returns all reviews that the server supports, by definition.

    policy: explains the decisions of RBAC to users who ask about themselves; None to leave that out.
    clock: seconds since 1970. has_selectors: whether access reviews may have selectors (gate
        AuthorizeWithSelectors).
    """
    explain = partial(explained, policy) if policy is not None else None
    access_reviews = {
        "SelfSubjectAccessReview": access_review(
            authorizers, validate_self_review, is_about_caller=True, explain=explain
        ),
        "SubjectAccessReview": access_review(authorizers, validate_review),
        "LocalSubjectAccessReview": access_review(authorizers, validate_local_review),
    }
    reviews = {
        authentication.PACKAGE + "SelfSubjectReview": self_subject_review(clock),
        authentication.PACKAGE + "TokenReview": token_review(token_reviewer),
        authorization.PACKAGE + "SelfSubjectRulesReview": rules_review(rules),
        **{
            authorization.PACKAGE + kind: review if has_selectors else _without_selectors(review)
            for kind, review in access_reviews.items()
        },
    }
    # Those of other versions, which former releases served, are converted: rows T16 and T17.
    others = {
        definition.replace(".v1.", f".{version}."): review
        for version in ("v1beta1", "v1alpha1")
        for definition, review in reviews.items()
    }
    return {**reviews, **others}


# ---- users


def self_subject_review(clock: Callable[[], float]) -> Review:
    async def review(call: ApiCall, document: Document, size: SizeClass) -> Answer:
        # Nothing is asked, so nothing that was sent comes back.
        metadata = {"creationTimestamp": timestamps.to_text(clock())}
        status = {"userInfo": user_info(call.user)}
        return lambda is_bounded: {**document, "metadata": metadata, "status": status}

    return review


def token_review(reviewer: TokenReviewer) -> Review:
    async def review(call: ApiCall, document: Document, size: SizeClass) -> Answer:
        spec = document["spec"]
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences, *_ = await reviewer(spec["token"], spec.get("audiences") or ())
        except Unauthorized as error:
            text = f"[{_BAD_TOKEN}, {error.why}]" if error.why else _BAD_TOKEN
            status: Document = {"user": {}, "error": text}
        else:
            status = {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}
        return lambda is_bounded: {**document, "status": status}

    return review


def user_info(user: UserInfo) -> Document:
    """Returns the UserInfo of a user, as in the API."""
    info: Document = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra}
    return info


# ---- what


def access_review(
    authorizers: AuthorizationChain,
    validate: Callable[[Document], Errors],
    *,
    is_about_caller: bool = False,
    explain: Callable[[Attributes, Verdict], str] | None = None,
) -> Review:
    """Returns a review of whether the caller, or the user that it names, may make the given request.

    explain: returns the reason in the response, instead of the verdict's.
    """

    async def review(call: ApiCall, document: Document, size: SizeClass) -> Answer:

        caller = call.user

        def asked() -> tuple[Errors, Attributes | None]:
            if errors := validate(document):
                return errors, None
            spec = document["spec"]
            return [], attributes_of(spec, caller if is_about_caller else reviewed_user(spec))

        errors, attributes = await call.offload.run_begun(size, asked)
        if attributes is None:
            raise Invalid(GroupKind(call.resource.group_version.group, ""), "", errors)
        verdict = authorizers(attributes)
        if isinstance(verdict, PendingDecision):
            with call.without_slot():
                verdict = await verdict.decide()
        status: Document = {"allowed": verdict.decision is Decision.ALLOW}
        if verdict.decision is Decision.DENY:
            status["denied"] = True
        if reason := explain(attributes, verdict) if explain is not None else verdict.reason:
            status["reason"] = reason

        def answer(is_bounded: bool) -> Document:
            if problems := [each for each in (verdict.error, unread_selectors(document["spec"])) if each]:
                status["evaluationError"] = "; ".join(problems)
            return {**document, "status": status}

        return answer

    return review


def _without_selectors(review: Review) -> Review:
    """Wraps a review so that it drops the selectors that it is sent with."""

    async def without_selectors(call: ApiCall, document: Document, size: SizeClass) -> Answer:
        spec = document["spec"]
        if (resource := spec.get("resourceAttributes")) is not None:
            kept = {key: value for key, value in resource.items() if key not in SELECTOR_FIELDS}
            document = {**document, "spec": {**spec, "resourceAttributes": kept}}
        return await review(call, document, size)

    return without_selectors


def explained(policy: RbacPolicy, attributes: Attributes, verdict: Verdict) -> str:
    """Returns the reason of a decision, for the reviewed user: Kubernetes' text, then an explanation.

    Other users may not see the rules of its roles. If another authorizer than RBAC decided, its own reason is
    the explanation.
    """
    if verdict.decision is Decision.ALLOW:
        if not verdict.reason.startswith(RBAC_ALLOWED):
            return verdict.reason
        found = allowing(policy, attributes)
        return verdict.reason if found is None else f"{verdict.reason}, by its rule {shown(found.rule)}"
    if verdict.decision is Decision.DENY or verdict.error:
        return verdict.reason
    nearly = own_near_misses(policy, attributes)
    # Where there is nothing to add `kubectl auth can-i` prints a plain "no", as scripts expect.
    told = f"nearly: {'; '.join(nearly)}" if nearly else ""
    return "; ".join(filter(None, (verdict.reason, told)))


def reviewed_user(spec: Document) -> UserInfo:
    """Returns the user that a SubjectAccessReview is about."""
    extra = tuple((key.lower(), tuple(values)) for key, values in (spec.get("extra") or {}).items())
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def attributes_of(spec: Document, user: UserInfo) -> Attributes:
    """Returns the attributes in an access review, for authorizers."""
    resource = spec.get("resourceAttributes")
    if resource is None:
        other = spec["nonResourceAttributes"]
        return Attributes(user, other.get("verb", ""), False, other.get("path", ""))
    return Attributes(
        user,
        resource.get("verb", ""),
        True,
        "",
        group=resource.get("group", ""),
        resource=resource.get("resource", ""),
        subresource=resource.get("subresource", ""),
        namespace=resource.get("namespace", ""),
        name=resource.get("name", ""),
        # As in Kubernetes, no name means all.
        version=resource.get("version") or ANY_VERSION,
        field_selector=readable_field_selector(resource.get("fieldSelector") or {}),
        label_selector=readable_label_selector(resource.get("labelSelector") or {}),
    )


def rules_review(rules: RuleResolver) -> Review:
    async def review(call: ApiCall, document: Document, size: SizeClass) -> Answer:
        namespace = document["spec"].get("namespace")
        if not namespace:
            raise BadRequest("no namespace on request")
        caller = call.user

        def answer(is_bounded: bool) -> Document:
            try:
                found = rules(caller, namespace, WORDS_ON_LOOP_MAX if is_bounded else math.inf)
            except TooManyWords:
                raise TakesLong from None
            return {**document, "metadata": {}, "spec": {}, "status": _rules_status(found)}

        return answer

    return review


def _rules_status(found: RuleSet) -> Document:
    status: Document = {
        "resourceRules": [
            {
                "verbs": list(rule.verbs),
                "apiGroups": list(rule.api_groups),
                "resources": list(rule.resources),
                "resourceNames": list(rule.resource_names),
            }
            for rule in found.resource_rules
        ],
        "nonResourceRules": [
            {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)}
            for rule in found.non_resource_rules
        ],
        "incomplete": found.is_incomplete,
    }
    if found.problems:
        status["evaluationError"] = ", ".join(found.problems)
    return status
