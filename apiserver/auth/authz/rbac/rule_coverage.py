"""Rule coverage: finds the permissions in some rules that the rules of an owner do not cover.

A rule is a product: each of its verbs, on each of its resources, in each of its groups. Kubernetes breaks
rules down into single permissions and compares each with all rules of the owner; a rule of a thousand verbs,
groups and resources has 10^9 permissions. The result here is the same, but is computed from the words: for
each word, a bit set says which of the owner's rules have it. A permission is covered if the bit sets of its
words have a bit in common, and the result for some bit sets holds for all words with the same ones.

Source: k8s.io/component-helpers, auth/rbac/validation/policy_comparator.go; k8s.io/kubernetes,
pkg/registry/rbac/validation/policy_compact.go. Row O08.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from apiserver.auth.authz.rbac.rules import ANY, PolicyRule
from apiserver.golang.quoting import quoted_list

# About a second. Roles as they are in clusters take some thousands.
STEPS_MAX: Final = 2_000_000
# Of the missing permissions that are reported. Those of Kubernetes' own `admin` have a tenth.
CHARACTERS_MAX: Final = 500_000
# Braces, names of fields, quotes.
_CHARACTERS_AROUND: Final = 50
# Bits that are looked at in one step.
_WORD_BITS: Final = 64
_ALL_BITS: Final = -1


class TooManyRules(Exception):
    """Comparing these rules would take too long."""


def uncovered_rules(
    owner: Iterable[PolicyRule], wanted: Sequence[PolicyRule], *, steps_max: int = STEPS_MAX
) -> tuple[PolicyRule, ...]:
    """Returns the permissions in `wanted` that no rule of `owner` covers, each as a rule, in their order.

    If there are very many, only the first are returned. Raises TooManyRules.
    """
    steps = _Steps(steps_max)
    found, characters = [], 0
    for permission in _uncovered(owner, wanted, steps):
        found.append(permission)
        characters += _characters(permission)
        if characters > CHARACTERS_MAX:
            break
    return tuple(found)


def compact(rules: Iterable[PolicyRule]) -> list[PolicyRule]:
    """Joins the rules for the same resource, or the same object of it, into one rule with all verbs."""
    verbs: dict[PolicyRule, list[str]] = {}
    others = []
    for rule in rules:
        is_simple = len(rule.api_groups) == len(rule.resources) == 1
        if is_simple and len(rule.resource_names) <= 1 and not rule.urls:
            verbs.setdefault(rule._replace(verbs=()), []).extend(rule.verbs)
        else:
            others.append(rule)
    return others + [rule._replace(verbs=tuple(found)) for rule, found in verbs.items()]


def rule_text(rule: PolicyRule) -> str:
    """Returns a rule as Go prints it: `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`."""
    fields = {
        "APIGroups": rule.api_groups,
        "Resources": rule.resources,
        "NonResourceURLs": rule.urls,
        "ResourceNames": rule.resource_names,
        "Verbs": rule.verbs,
    }
    return f"{{{', '.join(f'{name}:{quoted_list(words)}' for name, words in fields.items() if words)}}}"


def describe(missing: Sequence[PolicyRule]) -> str:
    """Returns a text about the result of `uncovered_rules`: a line for each rule, sorted."""
    lines = sorted({rule_text(rule) for rule in compact(missing)})
    if sum(map(_characters, missing)) > CHARACTERS_MAX:
        lines.append("and more")
    return "\n".join(lines)


def _characters(permission: PolicyRule) -> int:
    return _CHARACTERS_AROUND + sum(len(word) for words in permission for word in words)


def _uncovered(
    owner: Iterable[PolicyRule], wanted: Sequence[PolicyRule], steps: _Steps
) -> Iterator[PolicyRule]:
    held = _Held(owner, wanted, steps)
    for rule in wanted:
        steps.take(sum(map(len, rule)) * held.words)
        verbs = [(verb, held.verb(verb)) for verb in rule.verbs]
        if rule.resources and not held.has_all_resources:
            resources = (
                [(group, held.group(group)) for group in rule.api_groups],
                [(resource, held.resource(resource)) for resource in rule.resources],
                verbs,
                [(name, held.name(name)) for name in rule.resource_names] or [("", held.unnamed)],
            )
            for group, resource, verb, name in _Product(resources, held.words, steps).missing():
                names = (name,) if rule.resource_names else ()
                yield PolicyRule((verb,), (group,), (resource,), names)
        if rule.urls and not held.has_all_urls:
            urls = [(url, held.url(url)) for url in rule.urls]
            for url, verb in _Product((urls, verbs), held.words, steps).missing():
                yield PolicyRule((verb,), urls=(url,))


class _Steps:
    """The steps that remain for a comparison."""

    def __init__(self, allowed: int) -> None:
        self._left = allowed

    def take(self, count: int) -> None:
        """Spend some steps. Raises TooManyRules if they are used up."""
        self._left -= count
        if self._left < 0:
            raise TooManyRules


class _Held:
    """The owner's rules that have each word, as a bit set with bit n for rule n.

    words: the length of bit sets, in machine words.
    unnamed: the rules without resource names.
    has_all_resources, has_all_urls: whether a rule covers all of them, so that nothing has to be compared.
    """

    def __init__(self, owner: Iterable[PolicyRule], wanted: Sequence[PolicyRule], steps: _Steps) -> None:
        self._steps = steps
        rules: dict[PolicyRule, None] = {}
        for rule in owner:
            steps.take(1 + sum(map(len, rule)))
            rules[rule] = None
        self.words = 1 + len(rules) // _WORD_BITS
        self.has_all_resources = any(
            ANY in rule.verbs and ANY in rule.api_groups and ANY in rule.resources and not rule.resource_names
            for rule in rules
        )
        self.has_all_urls = any(
            ANY in rule.verbs and ANY in rule.urls and not rule.resource_names for rule in rules
        )
        for rule in wanted:
            steps.take(1 + sum(map(len, rule)))
        # Only these words will be looked up.
        everything: Iterable[PolicyRule] = (PolicyRule(*[(ANY,)] * 5), *wanted)
        verbs, groups, resources, names, urls = (
            set(chain(*words)) for words in zip(*everything, strict=True)
        )
        resources |= {_of_any(each) for each in resources}
        self._verbs = self._index([rule.verbs for rule in rules], verbs)
        self._groups = self._index([rule.api_groups for rule in rules], groups)
        self._resources = self._index([rule.resources for rule in rules], resources)
        self._names = self._index([rule.resource_names for rule in rules], names)
        self._urls = self._index([rule.urls for rule in rules], urls)
        prefixes = [[url.rstrip(ANY) for url in rule.urls if url.endswith(ANY)] for rule in rules]
        self._prefixes = self._index(prefixes, None)
        self._lengths = sorted({len(each) for each in self._prefixes})
        self.unnamed = self._bits([n for n, rule in enumerate(rules) if not rule.resource_names])

    def verb(self, word: str) -> int:
        return self._verbs.get(word, 0) | self._verbs.get(ANY, 0)

    def group(self, word: str) -> int:
        return self._groups.get(word, 0) | self._groups.get(ANY, 0)

    def resource(self, word: str) -> int:
        """Returns the rules that cover a resource; `*/scale` is the subresource `scale` of every resource,
        `*` is all.
        """
        found = self._resources
        return found.get(word, 0) | found.get(_of_any(word), 0) | found.get(ANY, 0)

    def name(self, word: str) -> int:
        return self._names.get(word, 0) | self.unnamed

    def url(self, word: str) -> int:
        """Returns the rules that cover a URL; `/healthz/*` covers all paths below."""
        bits = self._urls.get(word, 0)
        for length in self._lengths:
            if length > len(word):
                break
            self._steps.take(self.words)
            bits |= self._prefixes.get(word[:length], 0)
        return bits & self.unnamed

    def _index(self, words_of_rules: Sequence[Iterable[str]], asked: set[str] | None) -> dict[str, int]:
        """Returns the bit set of the rules that have a word, by word. asked: the relevant words; others are
        left out.
        """
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, words in enumerate(words_of_rules):
            for word in words:
                if asked is None or word in asked:
                    numbers[word].append(number)
        return {word: self._bits(found) for word, found in numbers.items()}

    def _bits(self, numbers: Iterable[int]) -> int:
        self._steps.take(self.words)
        bits = bytearray(self.words * _WORD_BITS // 8)
        for number in numbers:
            bits[number // 8] |= 1 << number % 8
        return int.from_bytes(bits, "little")


class _Product:
    """The permissions in a rule: all combinations of one word of each field.

    fields: words with their bit sets.
    """

    def __init__(self, fields: Sequence[Sequence[tuple[str, int]]], words: int, steps: _Steps) -> None:
        self._fields, self._words, self._steps = fields, words, steps
        self._distinct = [list(dict.fromkeys(bits for _, bits in field)) for field in fields]
        # By depth and the bits above.
        self._known: dict[tuple[int, int], Sequence[tuple[str, int]]] = {}

    def missing(self) -> Iterator[tuple[str, ...]]:
        """Yields the permissions that no rule covers."""
        return self._below(0, _ALL_BITS)

    def _below(self, depth: int, above: int) -> Iterator[tuple[str, ...]]:
        is_last = depth == len(self._fields) - 1
        for word, bits in self._gaps(depth, above):
            if is_last:
                yield (word,)
            else:
                for others in self._below(depth + 1, above & bits):
                    yield (word, *others)

    def _gaps(self, depth: int, above: int) -> Sequence[tuple[str, int]]:
        """Returns the words of a field for which a permission is missing.

        above: the bit set of the rules that have the words of the previous fields.
        """
        if (found := self._known.get((depth, above))) is not None:
            return found
        field, distinct = self._fields[depth], self._distinct[depth]
        self._steps.take(len(field) + len(distinct) * self._words)
        if depth == len(self._fields) - 1:
            has_gap = {bits: not above & bits for bits in distinct}
        else:
            has_gap = {bits: bool(self._gaps(depth + 1, above & bits)) for bits in distinct}
        gaps = self._known[depth, above] = [(word, bits) for word, bits in field if has_gap[bits]]
        return gaps


def _of_any(resource: str) -> str:
    """Returns the resource that means a subresource of any resource: `pods/log` -> `*/log`."""
    _, slash, subresource = resource.partition("/")
    return f"{ANY}/{subresource}" if slash else resource
