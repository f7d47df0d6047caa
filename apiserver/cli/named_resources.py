"""Finds the resource that somebody names as kubectl's users do, among those that a server serves."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from apiserver.cli.api_client import ApiClient, RequestFailed
from apiserver.meta.brand import Brand

_ALL: Final = "*"
# What is authorized, without a namespace, though it is not served: impersonation, signers of certificates.
_NEVER_SERVED: Final = frozenset({"users", "groups", "uids", "userextras", "signers"})


class NamedResource(NamedTuple):
    """A resource. version: that which the server prefers, or that was named; empty if it is not known."""

    group: str
    resource: str
    is_namespaced: bool = True
    version: str = ""


class _Served(NamedTuple):
    resource: NamedResource
    singular: str
    short_names: tuple[str, ...]


def add_group_domain_option(parser: argparse.ArgumentParser) -> None:
    """Have a parser take the domain of the server's own groups, for `brand_of`."""
    parser.add_argument(
        "--group-domain",
        metavar="DOMAIN",
        default="",
        help="The value of the server's --group-domain. (default k8s.io)",
    )


def brand_of(given: argparse.Namespace) -> Brand:
    return Brand(*([given.group_domain] if given.group_domain else []))


def found(client: ApiClient, brand: Brand, name: str) -> NamedResource:
    """Returns the resource of a name: plural, singular or short, maybe with `.GROUP` or `.VERSION.GROUP`.

    If the server does not let the caller see what it serves, the name is taken as a plural. Raises
    RequestFailed, also if no resource has the name.
    """
    short, _, qualifier = name.lower().partition(".")
    accept = (
        f"application/json;g={brand.group('apidiscovery')};v=v2;as=APIGroupDiscoveryList,application/json"
    )
    try:
        documents = [client.get(path, accept=accept) for path in ("/api", "/apis")]
    except RequestFailed as failed:
        if failed.status != HTTPStatus.FORBIDDEN:
            raise
        return NamedResource(qualifier, short)
    try:
        served = [each for document in documents for each in _served(document)]
    except (LookupError, TypeError, AttributeError):
        raise RequestFailed("the server's list of resources is not valid") from None
    candidates = [each for each in served if _is_of(each, qualifier)]
    # A plural counts more than another resource's short name.
    for names in (
        lambda each: (each.resource.resource,),
        lambda each: (each.singular,),
        lambda each: each.short_names,
    ):
        for each in candidates:
            if short in names(each):
                return each.resource
    if short == _ALL or short in _NEVER_SERVED:
        return NamedResource(qualifier, short, is_namespaced=short == _ALL)
    raise RequestFailed(_not_found(name, short, candidates or served))


def _served(document: Any) -> Iterator[_Served]:
    """Yields what a discovery document lists.

    Raises LookupError, TypeError, AttributeError if the document is no discovery document.
    """
    for group in document["items"]:
        name = group.get("metadata", {}).get("name", "")
        for version in group["versions"]:
            for each in version.get("resources", ()):
                yield _Served(
                    NamedResource(
                        name, each["resource"], each.get("scope") == "Namespaced", version["version"]
                    ),
                    each.get("singularResource", ""),
                    tuple(each.get("shortNames", ())),
                )


def _is_of(served: _Served, qualifier: str) -> bool:
    """qualifier: a group, `VERSION.GROUP`, or nothing; of the core group `VERSION.`, or the version alone."""
    group, version = served.resource.group, served.resource.version
    return qualifier in ("", group, f"{version}.{group}", group or version)


def _not_found(name: str, short: str, served: list[_Served]) -> str:
    plurals = {each.resource.resource: each.resource for each in served}
    near = difflib.get_close_matches(short, plurals, n=1)
    text = f"the server doesn't have a resource type {name!r}"
    if not near:
        return text
    nearest = plurals[near[0]]
    return f"{text}; did you mean {nearest.resource}{'.' if nearest.group else ''}{nearest.group}?"
