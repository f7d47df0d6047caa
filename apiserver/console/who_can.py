"""Answers requests for /console/who-can: whom RBAC allows a request, and by which binding and role.

A SubjectAccessReview says whether one user may do something. This is the other question. Only users who may
read all the roles and bindings that count get an answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any, Final

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.authorizer_modes import Authorizers
from apiserver.auth.authz.chain import AuthorizationChain
from apiserver.auth.authz.configuration import RBAC
from apiserver.auth.authz.rbac.explanation import GrantingRules, shown
from apiserver.auth.authz.rbac.policy import CLUSTER_ROLE_BINDING, ROLE_BINDING, Binding, RbacPolicy
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.console.query_bodies import read_query
from apiserver.endpoints.api_call import ApiCall
from apiserver.endpoints.bodies import BodyParser
from apiserver.endpoints.responses import send_document
from apiserver.meta.errors import BadRequest
from apiserver.meta.vocabulary import Document, UserInfo
from apiserver.storage.event_loop_turns import in_turns

# A page with more is not read; bindings may have ten thousands of subjects.
SUBJECTS_MAX: Final = 5_000
# To sort so many bindings takes half a millisecond.
SORTED_AT_ONCE_MAX: Final = 512
# Names of objects have up to 253 characters, those of resources with their subresources fewer.
TEXT_LENGTH_MAX: Final = 1_024
_RESOURCE_FIELDS: Final = ("group", "resource", "subresource", "namespace", "name")
_FIELDS: Final = ("verb", "path", *_RESOURCE_FIELDS)
_EXTENSIONS: Final = "extensions"


class WhoCan:
    """The endpoint. group: the API group of roles."""

    def __init__(self, parser: BodyParser, authorizers: Authorizers, group: str) -> None:
        self._parser, self._authorizers, self._group = parser, authorizers, group

    async def respond(self, call: ApiCall) -> None:
        """Answer a question. Raises BadRequest, Forbidden, and as `read_query`."""
        asked = question_of(await read_query(call, self._parser))
        await self._require_readable(call.user, asked.namespace)
        subjects: list[Document] = []
        omitted = 0
        policy = self._authorizers.rbac_policy
        if policy is not None:
            async for row in in_turns(subjects_in_order(policy, asked)):
                if row is not None and len(subjects) < SUBJECTS_MAX:
                    subjects.append(row)
                else:
                    omitted += row is not None
        await send_document(
            call, {"subjects": subjects, "omitted": omitted, "otherAuthorizers": self._others()}
        )

    async def _require_readable(self, user: UserInfo, namespace: str) -> None:
        """Check that a user may list what counts in a namespace. Raises Forbidden, InternalError."""
        chain: AuthorizationChain = self._authorizers.chain
        for resource in ("clusterroles", "clusterrolebindings"):
            await chain.require(_listing(user, self._group, resource))
        for resource in ("roles", "rolebindings") if namespace else ():
            await chain.require(_listing(user, self._group, resource, namespace))

    def _others(self) -> Sequence[str]:
        """Returns the authorizers that may allow the request to further users."""
        types = [each.type for each in self._authorizers.configured if each.type != RBAC]
        return list(dict.fromkeys([*types, *([_EXTENSIONS] if self._authorizers.extensions else [])]))


def question_of(document: Any) -> Attributes:
    """Returns the request that a client asks about; its user does not count. Raises BadRequest."""
    if type(document) is not dict:
        raise BadRequest("the body must be an object")
    if unknown := sorted(document.keys() - set(_FIELDS)):
        raise BadRequest(f"unknown field {unknown[0][:TEXT_LENGTH_MAX]!r}: there are {', '.join(_FIELDS)}")
    verb, path, *values = (_text(field, document.get(field)) for field in _FIELDS)
    texts = dict(zip(_RESOURCE_FIELDS, values, strict=True))
    if not verb:
        raise BadRequest("verb must be set")
    if bool(path) == bool(texts["resource"]):
        raise BadRequest("exactly one of resource and path must be set")
    if path and (beside := next((field for field, text in texts.items() if text), "")):
        raise BadRequest(f"{beside} must not be set beside path")
    group, resource, subresource, namespace, name = values
    return Attributes(UserInfo(""), verb, not path, path, group, resource, subresource, namespace, name)


def _text(field: str, value: Any) -> str:
    if value is None:
        return ""
    if type(value) is not str:
        raise BadRequest(f"{field} must be a string")
    if len(value) > TEXT_LENGTH_MAX:
        raise BadRequest(f"{field} must not have more than {TEXT_LENGTH_MAX} characters")
    return value


def _listing(user: UserInfo, group: str, resource: str, namespace: str = "") -> Attributes:
    return Attributes(user, "list", group=group, resource=resource, namespace=namespace, version="v1")


def subjects_in_order(policy: RbacPolicy, asked: Attributes) -> Iterator[Document | None]:
    """Yields the subjects to whom bindings allow a request, by the bindings' namespaces and names.

    Yields None after other brief pieces of the work, so that all of it can be done in turns.
    """
    rules = GrantingRules(policy, asked)
    runs: list[list[tuple[Binding, PolicyRule]]] = [[]]
    for binding in list(policy.all_bindings()):  # The policy may change between turns.
        rule = rules.of(binding)
        if rule is not None:
            runs[-1].append((binding, rule))
        if len(runs[-1]) == SORTED_AT_ONCE_MAX:
            runs[-1].sort()
            runs.append([])
        yield None
    runs[-1].sort()
    for binding, rule in merge(*runs):
        yield from _of_binding(binding, rule)


def _of_binding(binding: Binding, rule: PolicyRule) -> Iterator[Document]:
    namespaced = {"namespace": binding.namespace} if binding.namespace else {}
    granting = {
        "binding": {
            "kind": ROLE_BINDING if binding.namespace else CLUSTER_ROLE_BINDING,
            **namespaced,
            "name": binding.name,
        },
        "role": {"kind": binding.role_kind, "name": binding.role_name},
        "rule": shown(rule),
    }
    for subject in binding.subjects:
        namespace = {"namespace": subject.namespace} if subject.namespace else {}
        yield {"kind": subject.kind, **namespace, "name": subject.name, **granting}
