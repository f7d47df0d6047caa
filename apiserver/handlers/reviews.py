"""Handles POST of reviews: questions about who somebody is and what they may do. They are not stored.

Source: k8s.io/kubernetes, pkg/registry/{authentication,authorization}. Rows A14, I14.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final, TypeAlias

from apiserver.authn.token_review import TokenReviewer
from apiserver.authz.attributes import Attributes, AuthorizationChain, Decision
from apiserver.authz.rule_resolver import RuleResolver
from apiserver.catalogue import authentication, authorization
from apiserver.catalogue.authorization.access_reviews import (
    unread_selectors,
    validate_local_review,
    validate_review,
    validate_self_review,
)
from apiserver.endpoints.api_call import ApiCall, Handler
from apiserver.errors import BadRequest, Invalid, Unauthorized
from apiserver.field_errors import Errors
from apiserver.handlers.virtual_kinds import VirtualKinds, send_virtual
from apiserver.meta import timestamps
from apiserver.vocabulary import Document, GroupKind, UserInfo

# (call, the review that was sent) -> the review with its answer in `status`
Review: TypeAlias = Callable[[ApiCall, Document], Awaitable[Document]]
_BAD_TOKEN: Final = "invalid bearer token"  # noqa: S105  a message


def review_handlers(
    virtual: VirtualKinds, reviews: Mapping[str, Review]
) -> Mapping[str, Mapping[str, Handler]]:
    """Returns the handlers of POST, by definition and verb. reviews: by definition."""

    def handler(review: Review) -> Handler:
        async def create(call: ApiCall) -> None:
            resource = call.resource
            assert resource is not None
            encoder = virtual.encoder(call, resource)
            options = virtual.requests.options(call, "CreateOptions")
            document = await virtual.read(call, resource, options)
            await virtual.admit(call, resource, document["metadata"].get("name", ""), document, options)
            answered = await review(call, document)
            await send_virtual(call, encoder, resource, answered, HTTPStatus.CREATED)

        return create

    return {definition: {"create": handler(review)} for definition, review in reviews.items()}


def all_reviews(
    authorizers: AuthorizationChain,
    rules: RuleResolver,
    token_reviewer: TokenReviewer,
    clock: Callable[[], float],
) -> Mapping[str, Review]:
    """Returns all reviews that the server answers, by definition. clock: seconds since 1970."""
    return {
        authentication.PACKAGE + "SelfSubjectReview": self_subject_review(clock),
        authentication.PACKAGE + "TokenReview": token_review(token_reviewer),
        authorization.PACKAGE + "SelfSubjectAccessReview": access_review(
            authorizers, validate_self_review, is_about_caller=True
        ),
        authorization.PACKAGE + "SubjectAccessReview": access_review(authorizers, validate_review),
        authorization.PACKAGE + "LocalSubjectAccessReview": access_review(authorizers, validate_local_review),
        authorization.PACKAGE + "SelfSubjectRulesReview": rules_review(rules),
    }


# ---- who


def self_subject_review(clock: Callable[[], float]) -> Review:
    async def review(call: ApiCall, document: Document) -> Document:
        assert call.user is not None
        metadata = {**document["metadata"], "creationTimestamp": timestamps.to_text(clock())}
        return {**document, "metadata": metadata, "status": {"userInfo": user_info(call.user)}}

    return review


def token_review(reviewer: TokenReviewer) -> Review:
    async def review(call: ApiCall, document: Document) -> Document:
        spec = document["spec"]
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        try:
            user, audiences = await reviewer(spec["token"], spec.get("audiences") or ())
        except Unauthorized as error:
            text = f"[{_BAD_TOKEN}, {error.why}]" if error.why else _BAD_TOKEN
            status: Document = {"user": {}, "error": text}
        else:
            status = {"authenticated": True, "user": user_info(user), "audiences": list(audiences)}
        return {**document, "status": status}

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
    authorizers: AuthorizationChain, validate: Callable[[Document], Errors], *, is_about_caller: bool = False
) -> Review:
    """Returns a review that says whether the caller, or the user that it names, may do what it says."""

    async def review(call: ApiCall, document: Document) -> Document:
        assert call.resource is not None
        assert call.user is not None
        if errors := validate(document):
            raise Invalid(GroupKind(call.resource.group_version.group, ""), "", errors)
        spec = document["spec"]
        user = call.user if is_about_caller else reviewed_user(spec)
        verdict = authorizers(attributes_of(spec, user))
        status: Document = {"allowed": verdict.decision is Decision.ALLOW}
        if verdict.decision is Decision.DENY:
            status["denied"] = True
        if verdict.reason:
            status["reason"] = verdict.reason
        if problems := unread_selectors(spec):
            status["evaluationError"] = problems
        return {**document, "status": status}

    return review


def reviewed_user(spec: Document) -> UserInfo:
    """Returns the user that a SubjectAccessReview is about."""
    extra = tuple((key.lower(), tuple(values)) for key, values in (spec.get("extra") or {}).items())
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def attributes_of(spec: Document, user: UserInfo) -> Attributes:
    """Returns what an access review asks about, in the form that authorizers take."""
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
    )


def rules_review(rules: RuleResolver) -> Review:
    async def review(call: ApiCall, document: Document) -> Document:
        assert call.user is not None
        namespace = document["spec"].get("namespace")
        if not namespace:
            raise BadRequest("no namespace on request")
        found = rules(call.user, namespace)
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
        return {**document, "metadata": {}, "spec": {}, "status": status}

    return review
