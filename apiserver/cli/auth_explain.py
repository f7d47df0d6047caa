"""`apiserver auth explain`: why somebody may do something, or may not, and what is missing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from itertools import islice
from typing import Any, Final

from apiserver.auth.authn.impersonation import service_account_of
from apiserver.auth.authz.attributes import Attributes, forbidden
from apiserver.auth.authz.rbac import explanation
from apiserver.auth.authz.rbac.policy import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    RbacPolicy,
)
from apiserver.auth.authz.rbac.rules import Malformed
from apiserver.cli.api_client import ApiClient, RequestFailed, segment
from apiserver.cli.argument_parser import UsageError
from apiserver.cli.intermixed_parser import IntermixedParser, described_parser
from apiserver.cli.named_resources import add_group_domain_option, brand_of, found
from apiserver.cli.printing import print_lines
from apiserver.cli.server_options import ServerOptions, add_server_options
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import AUTHENTICATED, Document, UserInfo

_ABOUT: Final = """
Explains why a request is allowed or denied. If the request is allowed, the command prints the binding, the
role and the rule that allow it. If the request is not allowed, the command prints the rules that come closest
to allowing it. The command queries a running server as the user in the kubeconfig. If this user cannot read
some of the roles and bindings, the command prints which kinds of these objects it could not read.

RESOURCE is a resource name that kubectl accepts (pods, pod, po, deployments.apps, pods/log), or a path such
as /metrics. If you do not set --as, the command explains the permissions of the user in the kubeconfig.

The exit code is 0 if the request is allowed, 1 if it is not allowed, and 2 if the server does not respond or
does not serve the resource.
"""
ALLOWED, NOT_ALLOWED, FAILED = 0, 1, 2
# Of each kind of near misses.
TOLD_MAX: Final = 20
# Rules of the user that are looked at.
RULES_MAX: Final = 100_000


@dataclass(slots=True)
class _Known:
    """What the caller may read. unknown: what it may not, and why."""

    policy: RbacPolicy
    unknown: list[str] = field(default_factory=list)


def run(arguments: Sequence[str]) -> int:
    """Run the command that the arguments after `auth` name, and print the result. Returns the exit code.

    Raises UsageError, RequestFailed; exits for --help.
    """
    given = parser().parse_args(arguments)
    client = ApiClient(ServerOptions.of(given), "auth explain")
    try:
        return _explain(client, brand_of(given), given)
    finally:
        client.close()


def parser() -> IntermixedParser:
    parser = described_parser("auth", "Explains the decisions of the authorizer.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain", help="Explain why a request is allowed or denied.", description=_ABOUT
    )
    explain.add_argument(
        "verb",
        metavar="VERB",
        help="The verb, for example get, list or create. For a path, the verb is the HTTP method in "
        "lowercase.",
    )
    explain.add_argument(
        "resource", metavar="RESOURCE[/SUBRESOURCE]", help="A resource, or a path that begins with /."
    )
    explain.add_argument("name", metavar="NAME", nargs="?", default="", help="The name of an object.")
    explain.add_argument(
        "--as",
        dest="user",
        metavar="USER",
        default="",
        help="The user whose permissions the command explains.",
    )
    explain.add_argument(
        "--as-group",
        dest="groups",
        metavar="GROUP",
        action="append",
        default=[],
        help="A group to which the user belongs. The flag can be repeated.",
    )
    explain.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        default="",
        help="The namespace of the request. The default is the namespace of the kubeconfig context, or "
        "`default` if the context has no namespace.",
    )
    explain.add_argument(
        "-A", "--all-namespaces", action="store_true", help="Explain a request across all namespaces."
    )
    add_server_options(explain)
    add_group_domain_option(explain)
    return parser


# ---- what is asked


def _explain(client: ApiClient, brand: Brand, given: argparse.Namespace) -> int:
    user = _named(given) if given.user or given.groups else _who_am_i(client, brand)
    asked = _attributes(client, brand, user, given)
    status, problem = _decision(client, brand, asked, is_own=not (given.user or given.groups))
    known = _read(client, brand, asked)
    grant = explanation.allowing(known.policy, asked, rules_max=RULES_MAX)
    is_allowed = bool(status.get("allowed")) if status is not None else grant is not None
    for line in _told(asked, status, problem, known, is_allowed=is_allowed):
        print_lines(line)
    return ALLOWED if is_allowed else NOT_ALLOWED


def _named(given: argparse.Namespace) -> UserInfo:
    """Returns the user as whom requests with these names are made: see Impersonate-User."""
    groups = list(given.groups)
    account = service_account_of(given.user)
    if account is not None and not groups:
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[0]}"]
    if AUTHENTICATED not in groups and "system:unauthenticated" not in groups:
        groups.append(AUTHENTICATED)
    return UserInfo(given.user, tuple(groups))


def _who_am_i(client: ApiClient, brand: Brand) -> UserInfo:
    path = f"/apis/{brand.group('authentication')}/v1/selfsubjectreviews"
    info = (client.post(path, {}).get("status") or {}).get("userInfo") or {}
    extra = tuple((key, tuple(values)) for key, values in (info.get("extra") or {}).items())
    return UserInfo(info.get("username", ""), tuple(info.get("groups") or ()), info.get("uid", ""), extra)


def _attributes(client: ApiClient, brand: Brand, user: UserInfo, given: argparse.Namespace) -> Attributes:
    if given.resource.startswith("/"):
        if given.name:
            raise UsageError(f"auth explain: a path cannot have a NAME: {given.name!r}")
        return Attributes(user, given.verb, is_resource=False, path=given.resource)
    whole, _, subresource = given.resource.partition("/")
    served = found(client, brand, whole)
    namespace = ""
    if served.is_namespaced and not given.all_namespaces:
        namespace = given.namespace or client.namespace or "default"
    return Attributes(
        user,
        given.verb,
        group=served.group,
        resource=served.resource,
        subresource=subresource,
        namespace=namespace,
        name=given.name,
    )


def _decision(
    client: ApiClient, brand: Brand, asked: Attributes, *, is_own: bool
) -> tuple[Document | None, str]:
    """Returns what the server says; None, and why not, if it may not be asked."""
    if asked.is_resource:
        fields = ("namespace", "verb", "group", "resource", "subresource", "name")
        about = {"resourceAttributes": {name: value for name in fields if (value := getattr(asked, name))}}
    else:
        about = {"nonResourceAttributes": {"path": asked.path, "verb": asked.verb}}
    user = asked.user
    spec: Document = dict(about) if is_own else {**about, "user": user.name, "groups": list(user.groups)}
    kind = "selfsubjectaccessreviews" if is_own else "subjectaccessreviews"
    try:
        review = client.post(f"/apis/{brand.group('authorization')}/v1/{kind}", {"spec": spec})
    except RequestFailed as failed:
        if failed.status in (0, HTTPStatus.UNAUTHORIZED):
            raise
        return None, str(failed)
    return review.get("status") or {}, ""


def _read(client: ApiClient, brand: Brand, asked: Attributes) -> _Known:
    group = brand.group("rbac.authorization")
    known, root = _Known(RbacPolicy(group)), f"/apis/{group}/v1"
    places: list[tuple[str, str, str]] = [
        (CLUSTER_ROLE, f"{root}/clusterroles", "ClusterRoles"),
        (CLUSTER_ROLE_BINDING, f"{root}/clusterrolebindings", "ClusterRoleBindings"),
    ]
    for kind, path, what in places:
        _fill(known, kind, client.items(path), what)
    for kind, plural in ((ROLE, "roles"), (ROLE_BINDING, "rolebindings")):
        if not asked.is_resource:
            break
        try:
            _fill_from(known, kind, client.items(f"{root}/{plural}"))
        except RequestFailed:
            where = f"{root}/namespaces/{segment(asked.namespace)}/{plural}" if asked.namespace else ""
            if where:
                _fill(known, kind, client.items(where), f"{kind}s")
            known.unknown.append(f"{kind}s in other namespaces cannot be read")
    return known


def _fill(known: _Known, kind: str, documents: Iterable[Any], what: str) -> None:
    try:
        _fill_from(known, kind, documents)
    except RequestFailed as failed:
        known.unknown.append(f"{what}: {failed}")


def _fill_from(known: _Known, kind: str, documents: Iterable[Any]) -> None:
    """Add what objects of a kind say. Raises RequestFailed."""
    for document in documents:
        try:
            known.policy.put(kind, document)
        except Malformed:
            known.unknown.append(f"a malformed {kind}")


# ---- the report


def _told(
    asked: Attributes, status: Document | None, problem: str, known: _Known, *, is_allowed: bool
) -> Iterator[str]:
    policy, user = known.policy, asked.user
    request = forbidden(asked).message
    if is_allowed:
        request = (
            request.replace(" is forbidden: ", ": ")
            .removeprefix("forbidden: ")
            .replace(" cannot ", " can ", 1)
        )
    yield f"{'yes' if is_allowed else 'no'}: {request}"
    yield f"about: {explanation.who(asked)}"
    if status is None:
        yield f"The server's decision is unknown: {problem}. According to the roles and bindings:"
    else:
        word = "denied" if status.get("denied") else "allowed" if status.get("allowed") else "not allowed"
        reason = status.get("reason") or "no reason given"
        yield f"the server: {word}; {reason}"
        if status.get("evaluationError"):
            yield f"with an error: {status['evaluationError']}"
    grant = explanation.allowing(policy, asked, rules_max=RULES_MAX)
    if grant is not None:
        yield f"{grant.binding.describe(user)} has the rule {explanation.shown(grant.rule)}"
    elif is_allowed:
        yield (
            "no known role or binding allows the request: another authorizer or the group system:masters "
            "allows it"
        )
    else:
        yield from _section(
            "nearly allowed by:", iter(explanation.own_near_misses(policy, asked, rules_max=RULES_MAX))
        )
        yield from _section("bound in other namespaces:", explanation.bound_elsewhere(policy, asked))
        yield from _section(
            "bound to subjects with similar names:", explanation.bound_to_others(policy, asked)
        )
        yield from _section(
            "would allow the request if bound to the user:", explanation.unbound_roles(policy, asked)
        )
    yield from _section("not checked:", iter(dict.fromkeys(known.unknown)))


def _section(head: str, lines: Iterator[str]) -> Iterator[str]:
    told = list(islice(lines, TOLD_MAX + 1))
    if told:
        yield head
        yield from (f"  {line}" for line in told[:TOLD_MAX])
        if len(told) > TOLD_MAX:
            yield "  and more"
