"""The modes of impersonation, and the permissions that each of them requires (row O08).

`impersonate` on a user is the permission to do everything that user may do. Constrained impersonation
(KEP-5284, gate ConstrainedImpersonation) has modes that grant less: the caller needs permission to be the
user, by a verb like `impersonate:user-info`, and also permission to make this request on behalf of a user, by
one like `impersonate-on:user-info:list`.

    associated-node   a service account impersonates the node on which its pod runs
    arbitrary-node    nodes: only their names may be given
    serviceaccount    service accounts: only their names may be given
    user-info         all other users, with uid, groups and extra; but never the group system:masters
    legacy            any request, for callers that may `impersonate`

The modes are tried in this order, but first the one that last succeeded for the caller. If none succeeds, the
request is refused with the reason of the first mode that was tried.

Left out: kube-apiserver remembers for ten seconds whom a caller may impersonate. Authorizers remember their
answers here, and forget them when roles change, so a revoked permission is gone at once.

Source: k8s.io/apiserver, pkg/endpoints/filters/impersonation/{mode,cache}.go of 1.36.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from apiserver.auth.authn.impersonation import impersonated, node_of, service_account_of
from apiserver.auth.authz.attributes import Attributes, forbidden
from apiserver.auth.authz.node.identity import NODES_GROUP
from apiserver.golang.quoting import aggregate, go_quote
from apiserver.meta.brand import Brand
from apiserver.meta.vocabulary import SYSTEM_MASTERS, UserInfo
from apiserver.schema.validation.domain_prefixed_paths import validate_domain_prefixed_path

# From so many groups, or values of extra, on it is first asked whether the caller may impersonate any.
MANY_CHECKS: Final = 4
# Callers whose last mode is remembered: about 100 bytes each.
CALLERS_MAX: Final = 10_000
LEGACY: Final = "legacy"
_ANY: Final = "*"


class ImpersonationRequest(NamedTuple):
    """A request for impersonation, to be authorized. attributes: of the request, as made by the caller.

    wanted: exactly the user that the headers name.
    """

    attributes: Attributes
    wanted: UserInfo

    @property
    def caller(self) -> UserInfo:
        return self.attributes.user

    @property
    def has_only_a_name(self) -> bool:
        return not (self.wanted.uid or self.wanted.groups or self.wanted.extra)


class Requirement(NamedTuple):
    """A set of permissions that the caller must have: every one of `each`.

    instead: a permission that implies all of them, and is checked first; None if there is none.
    """

    each: tuple[Attributes, ...]
    instead: Attributes | None = None


class ImpersonationMode(NamedTuple):
    """A mode of impersonation. name: as metrics have it.

    verb: of the checks about the user. is_legacy: whether the request itself is not checked.
    applies: whether the mode can impersonate a user at all.
    asks_as: turns the attributes of a check into those that the authorizer gets.
    """

    name: str
    applies: Callable[[ImpersonationRequest], bool]
    brand: Brand
    asks_as: Callable[[Attributes], Attributes] | None = None

    @property
    def is_legacy(self) -> bool:
        return self.name == LEGACY

    @property
    def verb(self) -> str:
        return "impersonate" if self.is_legacy else f"impersonate:{self.name}"

    @property
    def constraint(self) -> str:
        """The constraint in audit events; empty for legacy impersonation."""
        return "" if self.is_legacy else self.verb

    def impersonated(self, wanted: UserInfo) -> UserInfo:
        """Returns the user with the groups that Kubernetes adds. Nodes get theirs only in the node modes."""
        if not self.is_legacy and node_of(wanted.name) is not None:
            wanted = wanted._replace(groups=(NODES_GROUP,))
        return impersonated(wanted)

    def requirements(self, request: ImpersonationRequest) -> Iterator[Requirement]:
        """Yields the requirements on the caller, in the order in which they are checked.

        Raises Forbidden, after the requirements before it, for what this mode never allows.
        """
        for requirement in self._requirements(request):
            if self.asks_as is None:
                yield requirement
            else:
                # No group or extra is wanted where this is set, so nothing is asked `instead`.
                yield Requirement(tuple(map(self.asks_as, requirement.each)))

    def _requirements(self, request: ImpersonationRequest) -> Iterator[Requirement]:
        caller, wanted = request.caller, request.wanted
        if not self.is_legacy:
            attributes = request.attributes
            yield Requirement((attributes._replace(verb=f"impersonate-on:{self.name}:{attributes.verb}"),))
        yield Requirement((self._name_check(caller, wanted.name),))
        if wanted.uid:
            yield Requirement((self._check(caller, "uids", wanted.uid),))
        if wanted.groups:
            yield self._groups_requirement(caller, wanted.groups)
        if wanted.extra:
            yield self._extra_requirement(caller, wanted.extra)

    def _name_check(self, caller: UserInfo, name: str) -> Attributes:
        account = service_account_of(name)
        if account is not None:
            namespace, account_name = account
            check = self._name_or_group_check(caller, "serviceaccounts", account_name)
            return check._replace(namespace=namespace)
        node = None if self.is_legacy else node_of(name)
        if node is not None:
            return self._name_or_group_check(caller, "nodes", node)
        return self._name_or_group_check(caller, "users", name)

    def _groups_requirement(self, caller: UserInfo, groups: tuple[str, ...]) -> Requirement:
        each = tuple(self._name_or_group_check(caller, "groups", group) for group in groups)
        if self.is_legacy:
            return Requirement(each)
        check = self._name_or_group_check(caller, "groups", "")
        if "" in groups:
            raise forbidden(check, "impersonating the empty string group is not allowed")
        if SYSTEM_MASTERS in groups:
            why = f"impersonating the {SYSTEM_MASTERS} group is not allowed"
            raise forbidden(check._replace(name=SYSTEM_MASTERS), why)
        return Requirement(each, check._replace(name=_ANY) if len(groups) >= MANY_CHECKS else None)

    def _extra_requirement(
        self, caller: UserInfo, extra: tuple[tuple[str, tuple[str, ...]], ...]
    ) -> Requirement:
        each = tuple(
            self._check(caller, "userextras", value)._replace(subresource=key)
            for key, values in extra
            for value in values
        )
        if self.is_legacy:
            return Requirement(each)
        check = self._check(caller, "userextras", "")
        if problem := next(filter(None, (_problem_of_extra(key, values) for key, values in extra)), ""):
            raise forbidden(check, problem)
        is_many = len(each) >= MANY_CHECKS
        return Requirement(each, check._replace(subresource=_ANY, name=_ANY) if is_many else None)

    def _name_or_group_check(self, caller: UserInfo, resource: str, name: str) -> Attributes:
        check = self._check(caller, resource, name)
        # Legacy impersonation has users and groups in the core group.
        return check._replace(group="") if self.is_legacy else check

    def _check(self, caller: UserInfo, resource: str, name: str) -> Attributes:
        return Attributes(
            user=caller,
            verb=self.verb,
            group=self.brand.group("authentication"),
            resource=resource,
            name=name,
            version="v1",
        )


def _problem_of_extra(key: str, values: tuple[str, ...]) -> str:
    """Returns why a key of extra, with its values, cannot be impersonated; empty if it can."""
    if not key:
        return "impersonating the empty string key in extra is not allowed"
    if errors := validate_domain_prefixed_path("extra.key", key):
        return f"impersonating an invalid key in extra is not allowed: {aggregate(errors)}"
    if key != key.lower():
        return f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
    if "" in values:
        return "impersonating the empty string value in extra is not allowed"
    return ""


def impersonation_modes(brand: Brand) -> tuple[ImpersonationMode, ...]:
    """Returns all modes, in the order in which they are tried; the last one applies to all users."""
    prefix = f"authentication.{brand.vendor}.io"

    def is_own_node(request: ImpersonationRequest) -> bool:
        node = node_of(request.wanted.name)
        return (
            request.has_only_a_name
            and node is not None
            and service_account_of(request.caller.name) is not None
            and dict(request.caller.extra).get(f"{prefix}/node-name") == (node,)
        )

    def on_any_node(attributes: Attributes) -> Attributes:
        """Returns the attributes for the account on any node, so that the decision is the same for all its
        pods.

        The check that the node is its own comes before; the authorizer only sees the keys of extra.
        """
        keys = tuple(sorted(key for key, _ in attributes.user.extra))
        user = attributes.user._replace(extra=((f"{prefix}/associated-node-keys", keys),))
        name = _ANY if attributes.verb == "impersonate:associated-node" else attributes.name
        return attributes._replace(user=user, name=name)

    def is_node(request: ImpersonationRequest) -> bool:
        return request.has_only_a_name and node_of(request.wanted.name) is not None

    def is_service_account(request: ImpersonationRequest) -> bool:
        return request.has_only_a_name and service_account_of(request.wanted.name) is not None

    def is_other_user(request: ImpersonationRequest) -> bool:
        name = request.wanted.name
        return node_of(name) is None and service_account_of(name) is None

    return (
        ImpersonationMode("associated-node", is_own_node, brand, on_any_node),
        ImpersonationMode("arbitrary-node", is_node, brand),
        ImpersonationMode("serviceaccount", is_service_account, brand),
        ImpersonationMode("user-info", is_other_user, brand),
        ImpersonationMode(LEGACY, lambda _: True, brand),
    )


class LastModes:
    """The mode by which each caller last impersonated a user; most callers use only one."""

    def __init__(self, callers_max: int = CALLERS_MAX) -> None:
        self._callers_max = callers_max
        # By the hash of the caller's name, so that long names take no more room. If two have the same, their
        # modes are tried in another order: that is all.
        self._modes: OrderedDict[int, ImpersonationMode] = OrderedDict()

    def __len__(self) -> int:
        return len(self._modes)

    def of(self, caller: UserInfo) -> ImpersonationMode | None:
        key = hash(caller.name)
        mode = self._modes.get(key)
        if mode is not None:
            self._modes.move_to_end(key)
        return mode

    def remember(self, caller: UserInfo, mode: ImpersonationMode) -> None:
        key = hash(caller.name)
        self._modes[key] = mode
        self._modes.move_to_end(key)
        if len(self._modes) > self._callers_max:
            self._modes.popitem(last=False)
