"""Who may give which permissions away: those that their own rules cover. Row O08.

Source: k8s.io/component-helpers, auth/rbac/validation/policy_comparator_test.go; k8s.io/kubernetes,
pkg/registry/rbac/validation/policy_compact_test.go.
"""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.auth.authz.attributes import Attributes
from apiserver.auth.authz.rbac.rule_coverage import (
    CHARACTERS_MAX,
    TooManyRules,
    compact,
    describe,
    rule_text,
    uncovered_rules,
)
from apiserver.auth.authz.rbac.rules import PolicyRule
from apiserver.meta.vocabulary import UserInfo


def rule(verbs: str, groups: str, resources: str, names: str = "") -> PolicyRule:
    """Words with blanks between; `core` is the group without a name."""
    of_groups = ("" if group == "core" else group for group in groups.split())
    return PolicyRule(tuple(verbs.split()), tuple(of_groups), tuple(resources.split()), tuple(names.split()))


def paths(verbs: str, urls: str) -> PolicyRule:
    return PolicyRule(tuple(verbs.split()), urls=tuple(urls.split()))


Rules = tuple[PolicyRule, ...]

# What somebody has, what is wanted, and what of that they do not have.
CASES: Final[dict[str, tuple[Rules, Rules, Rules]]] = {
    "the same": ((rule("get", "core", "pods"),), (rule("get", "core", "pods"),), ()),
    "nothing is had": ((), (rule("get", "core", "pods"),), (rule("get", "core", "pods"),)),
    "nothing is wanted": ((), (), ()),
    "part of a rule": ((rule("get list", "a b", "x y"),), (rule("list", "b", "x"),), ()),
    "several rules together": (
        (rule("delete", "a", "x"), rule("delete", "a", "y"), rule("update", "a", "x y")),
        (rule("delete update", "a", "x y"),),
        (),
    ),
    "a combination that no single rule has": (
        (rule("delete update", "a", "x y"), rule("delete", "a", "z")),
        (rule("delete update", "a", "x y z"),),
        (rule("update", "a", "z"),),
    ),
    "a group and a resource of different rules": (
        (rule("get", "a", "x"), rule("get", "b", "y")),
        (rule("get", "a b", "x y"),),
        (rule("get", "a", "y"), rule("get", "b", "x")),
    ),
    "all verbs": ((rule("*", "a", "x"),), (rule("get watch *", "a", "x"),), ()),
    "all groups": ((rule("get", "*", "x"),), (rule("get", "core a *", "x"),), ()),
    "all resources": ((rule("get", "a", "*"),), (rule("get", "a", "x x/log */log *"),), ()),
    "verbs one by one are not all": (
        (rule("get list watch create update patch delete", "a", "x"),),
        (rule("*", "a", "x"),),
        (rule("*", "a", "x"),),
    ),
    "groups one by one are not all": (
        (rule("get", "a b", "x"),),
        (rule("get", "*", "x"),),
        (rule("get", "*", "x"),),
    ),
    "resources one by one are not all": (
        (rule("get", "a", "x y"),),
        (rule("get", "a", "*"),),
        (rule("get", "a", "*"),),
    ),
    "a resource is not what is below it": (
        (rule("get", "a", "x"),),
        (rule("get", "a", "x x/log"),),
        (rule("get", "a", "x/log"),),
    ),
    "the same below any resource": (
        (rule("get", "a", "*/log"),),
        (rule("get", "a", "x/log */log x x/exec */exec"),),
        (rule("get", "a", "x"), rule("get", "a", "x/exec"), rule("get", "a", "*/exec")),
    ),
    "below one resource is not below any": (
        (rule("get", "a", "x/log"),),
        (rule("get", "a", "*/log"),),
        (rule("get", "a", "*/log"),),
    ),
    "whatever the name": ((rule("get", "a", "x"),), (rule("get", "a", "x", "n m"),), ()),
    "some names": (
        (rule("get", "a", "x", "n"), rule("get", "a", "x", "m")),
        (rule("get", "a", "x", "n m o"),),
        (rule("get", "a", "x", "o"),),
    ),
    "some names are not all": (
        (rule("get", "a", "x", "n m"),),
        (rule("get", "a", "x"),),
        (rule("get", "a", "x"),),
    ),
    "no name is a wildcard": (
        (rule("get", "a", "x", "*"),),
        (rule("get", "a", "x", "n"),),
        (rule("get", "a", "x", "n"),),
    ),
    "a path": ((paths("*", "/apis"),), (paths("get *", "/apis"),), ()),
    "all paths": ((paths("*", "*"),), (paths("*", "/apis /apis/v1 / *"),), ()),
    "paths below one": ((paths("*", "/apis/*"),), (paths("get", "/apis/v1/foo /apis/v1 /apis/*"),), ()),
    "paths below one are not that one": (
        (paths("*", "/apis/*"),),
        (paths("get", "/apis /apis/v1"),),
        (paths("get", "/apis"),),
    ),
    "a path is not what is below it": (
        (paths("get", "/api"),),
        (paths("get", "/api/* /apis"),),
        (paths("get", "/api/*"), paths("get", "/apis")),
    ),
    "a star inside a path is a letter": (
        (paths("get", "/*/v1/*"),),
        (paths("get", "/api/v1/x /*/v1/x"),),
        (paths("get", "/api/v1/x"),),
    ),
    "all resources are no paths": (
        (rule("*", "*", "*"),),
        (paths("get", "/apis"), rule("*", "*", "*")),
        (paths("get", "/apis"),),
    ),
    "all paths are no resources": (
        (paths("*", "*"),),
        (rule("get", "core", "pods"),),
        (rule("get", "core", "pods"),),
    ),
    # Such rules are not accepted, but may be stored.
    "paths and resources in one rule": (
        (rule("get", "a", "x"),),
        (rule("get", "a", "x")._replace(urls=("/apis",)),),
        (paths("get", "/apis"),),
    ),
    "paths of a rule with names": (
        (paths("*", "*")._replace(resource_names=("n",)),),
        (paths("get", "/apis"),),
        (paths("get", "/apis"),),
    ),
    "what no verb is for": ((), (rule("", "a", "x"), paths("", "/apis")), ()),
    "in the order in which it is wanted": (
        (),
        (rule("get list", "b a", "y x"),),
        tuple(rule(v, g, r) for g, r, v in product("ba", "yx", ("get", "list"))),
    ),
}


@pytest.mark.parametrize(("owner", "wanted", "missing"), CASES.values(), ids=CASES)
def test_what_is_not_covered(owner: Rules, wanted: Rules, missing: Rules) -> None:
    assert uncovered_rules(owner, wanted) == missing
    # Nor does it take others to cover what one has oneself.
    assert uncovered_rules(wanted, wanted) == ()
    assert uncovered_rules((*owner, *missing), wanted) == ()


# ---- against single requests

SOMEBODY: Final = UserInfo("somebody")
OTHER: Final = "other"  # which no rule names
RESOURCES: Final = ("*", "x", "y", "x/log", "y/log", "*/log")
URLS: Final = ("*", "/", "/*", "/a", "/a*", "/a/*", "/a/b", "/b")


def some(*words: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(words), min_size=1, max_size=3).map(tuple)


VERBS: Final = some("*", "get", "list")
NAMES: Final = st.just(()) | some("n", "m", "")
RULES: Final = st.lists(
    st.tuples(VERBS, some("*", "", "a"), some(*RESOURCES), NAMES).map(lambda words: PolicyRule(*words))
    | st.tuples(VERBS, some(*URLS)).map(lambda words: PolicyRule(words[0], urls=words[1])),
    max_size=4,
)


def request(verb: str, group: str, resource: str, name: str) -> Attributes:
    top, _, below = resource.partition("/")
    return Attributes(SOMEBODY, verb, True, "", group, top, below, "", name)


def requests_of(single: PolicyRule) -> Attributes:
    """One that a rule with one word in each field allows, but no rule without the same wildcards."""
    verb = single.verbs[0].replace("*", OTHER)
    if single.urls:
        return Attributes(SOMEBODY, verb, False, single.urls[0].replace("*", OTHER))
    group, resource = single.api_groups[0].replace("*", OTHER), single.resources[0].replace("*", OTHER)
    return request(verb, group, resource, single.resource_names[0] if single.resource_names else OTHER)


def taken_apart(wanted: PolicyRule) -> list[PolicyRule]:
    names: list[tuple[str, ...]] = [(name,) for name in wanted.resource_names] or [()]
    return [
        PolicyRule((verb,), (group,), (resource,), name)
        for group, resource, verb, name in product(wanted.api_groups, wanted.resources, wanted.verbs, names)
    ] + [PolicyRule((verb,), urls=(url,)) for url, verb in product(wanted.urls, wanted.verbs)]


@given(RULES, RULES)
def test_what_is_missing_is_each_permission_that_none_of_the_owners_rules_allows(
    owner: list[PolicyRule], wanted: list[PolicyRule]
) -> None:
    singles = [single for each in wanted for single in taken_apart(each)]
    missing = [s for s in singles if not any(each.allows(requests_of(s)) for each in owner)]
    assert list(uncovered_rules(owner, wanted)) == missing


REQUESTS: Final = [
    request(*words)
    for words in product(
        ("get", "list", OTHER),
        ("", "a", OTHER),
        ("x", "y", "x/log", "y/log", "x/other", OTHER, "other/log", "other/other"),
        ("n", "m", "", OTHER),
    )
] + [
    Attributes(SOMEBODY, verb, False, path)
    for verb in ("get", "list", OTHER)
    for path in ("", "/", "/a", "/a/", "/a/b", "/ab", "/b", "/other", "other")
]


@given(RULES, RULES)
def test_with_what_is_missing_the_owner_could_do_all_that_is_wanted(
    owner: list[PolicyRule], wanted: list[PolicyRule]
) -> None:
    missing = uncovered_rules(owner, wanted)
    for each in REQUESTS:
        if any(rule.allows(each) for rule in wanted):
            assert any(rule.allows(each) for rule in (*owner, *missing))
    # The other way round it holds since the requests have words that no rule has.
    could = all(
        any(rule.allows(each) for rule in owner)
        for each in REQUESTS
        if any(rule.allows(each) for rule in wanted)
    )
    assert could is (not missing)


# ---- bounds

MANY: Final = tuple(f"w{number}" for number in range(1_000))
HUGE: Final = PolicyRule(MANY, MANY, MANY)  # 10^9 permissions


def test_a_huge_rule_is_compared_all_the_same() -> None:
    assert uncovered_rules([HUGE], [HUGE]) == ()
    assert uncovered_rules([PolicyRule(("*",), ("*",), ("*",))], [HUGE]) == ()
    half = [HUGE._replace(verbs=MANY[:500]), HUGE._replace(verbs=MANY[500:])]
    assert uncovered_rules(half, [HUGE]) == ()
    # All but one permission of the 10^9.
    last = PolicyRule(MANY[-1:], MANY[-1:], MANY[-1:])
    almost = [
        HUGE._replace(verbs=MANY[:-1]),
        HUGE._replace(api_groups=MANY[:-1]),
        HUGE._replace(resources=MANY[:-1]),
    ]
    assert uncovered_rules(almost, [HUGE]) == (last,)


def test_of_very_much_that_is_missing_only_the_first_is_told() -> None:
    missing = uncovered_rules([], [HUGE])
    assert missing[0] == PolicyRule(MANY[:1], MANY[:1], MANY[:1])
    told = describe(missing)
    assert len(told) < CHARACTERS_MAX
    assert told.endswith("\nand more")


def test_what_takes_too_long_is_said_to() -> None:
    """Each word of each field is in another set of the owner's rules."""
    owner = [
        PolicyRule(*(tuple(w for n, w in enumerate(MANY) if n * k % 97 != number) for k in (1, 5, 11)))
        for number in range(97)
    ]
    with pytest.raises(TooManyRules):
        uncovered_rules(owner, [HUGE], steps_max=100_000)
    with pytest.raises(TooManyRules):
        uncovered_rules([rule("get", "a", f"r{number}") for number in range(100)], [], steps_max=99)


# ---- words

TEXTS: Final = {
    "of the core group": (
        rule("get", "core", "secrets"),
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}',
    ),
    "of one object": (
        rule("get list", "a", "x", "n"),
        '{APIGroups:["a"], Resources:["x"], ResourceNames:["n"], Verbs:["get" "list"]}',
    ),
    "of a path": (paths("get", "/apis"), '{NonResourceURLs:["/apis"], Verbs:["get"]}'),
    "with what has to be quoted": (PolicyRule(urls=('a"\n',)), r'{NonResourceURLs:["a\"\n"]}'),
    "of nothing": (PolicyRule(), "{}"),
}


@pytest.mark.parametrize(("shown", "expected"), TEXTS.values(), ids=TEXTS)
def test_rules_as_text(shown: PolicyRule, expected: str) -> None:
    assert rule_text(shown) == expected


COMPACTED: Final[dict[str, tuple[Rules, set[PolicyRule]]]] = {
    "verbs on a resource": (
        (rule("get", "a", "x"), rule("get", "b", "x"), rule("list", "a", "x")),
        {rule("get list", "a", "x"), rule("get", "b", "x")},
    ),
    "verbs on an object": (
        (rule("get", "a", "x", "n"), rule("get", "a", "x", "m"), rule("list", "a", "x", "n")),
        {rule("get list", "a", "x", "n"), rule("get", "a", "x", "m")},
    ),
    "all objects are not one": (
        (rule("get", "a", "x"), PolicyRule(("list",), ("a",), ("x",), ("",))),
        {rule("get", "a", "x"), PolicyRule(("list",), ("a",), ("x",), ("",))},
    ),
    "several groups, resources or names stay": (
        (
            rule("get", "a b", "x"),
            rule("list", "a b", "x"),
            rule("get", "a", "x y"),
            rule("list", "a", "x y"),
        ),
        {
            rule("get", "a b", "x"),
            rule("list", "a b", "x"),
            rule("get", "a", "x y"),
            rule("list", "a", "x y"),
        },
    ),
    "paths stay": ((paths("get", "/a"), paths("put", "/a")), {paths("get", "/a"), paths("put", "/a")}),
}


@pytest.mark.parametrize(("rules", "expected"), COMPACTED.values(), ids=COMPACTED)
def test_rules_that_differ_in_verbs_become_one(rules: Rules, expected: set[PolicyRule]) -> None:
    compacted = compact(rules)
    assert set(compacted) == expected
    assert len(compacted) == len(expected)


def test_what_is_missing_is_told_by_the_alphabet_and_once() -> None:
    url = paths("get", "/a")
    missing = [url, rule("list", "b", "x"), rule("get", "b", "x"), url, rule("get", "a", "x")]
    assert describe(missing).splitlines() == [
        '{APIGroups:["a"], Resources:["x"], Verbs:["get"]}',
        '{APIGroups:["b"], Resources:["x"], Verbs:["list" "get"]}',
        '{NonResourceURLs:["/a"], Verbs:["get"]}',
    ]
