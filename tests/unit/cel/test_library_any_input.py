"""Whatever a function is called with, it answers or says what is wrong. Rows I13, R30."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apiserver.cel.functions import ANY, ONE, Argument, Bounds, CallEstimator, Overload
from apiserver.cel.library.named_formats import FORMAT, FORMATS
from apiserver.cel.library.network import CIDR, IP
from apiserver.cel.library.quantity import QUANTITY
from apiserver.cel.library.semver import SEMVER
from apiserver.cel.library.standard import KUBERNETES_STANDARD, STANDARD
from apiserver.cel.library.url import URL
from apiserver.cel.types import Type, TypeKind
from apiserver.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CostExceeded,
    Duration,
    EvaluationError,
    OptionalValue,
    Timestamp,
    UInt,
    type_of,
)
from tests.unit.cel.library_support import LIBRARIES

# Operators are the compiler's, and the standard library has its own tests.
OVERLOADS = {
    f"{overload.id}": overload
    for library in LIBRARIES
    if library not in (STANDARD, KUBERNETES_STANDARD[0])
    for name, overloads in library.functions.items()
    if not name.startswith(("_[", "or"))  # which the compiler evaluates
    for overload in overloads
}
CALLS: dict[str, Callable[..., Any]] = {name: overload.call for name, overload in OVERLOADS.items()}

# What functions look at, and anything.
_TEXTS = st.one_of(
    st.text(max_size=12),
    st.text("0123456789.:/%[]@abfx-+?#&=eKGimn~", max_size=24),
    st.sampled_from(
        [
            "1.2.3",
            "10.0.0.0/8",
            "::1",
            "1Gi",
            "1e3",
            "http://a:1/b?c=d#e",
            "%s %d",
            "^a+$",
            "[",
            "a-b.c",
            "aGk=",
        ]
    ),
)
_INTS = st.one_of(st.integers(-3, 30), st.integers(INT_MIN, INT_MAX))
_SCALARS: dict[TypeKind, st.SearchStrategy[Any]] = {
    TypeKind.STRING: _TEXTS,
    TypeKind.INT: _INTS,
    TypeKind.UINT: st.integers(0, UINT_MAX).map(UInt),
    TypeKind.DOUBLE: st.floats(),
    TypeKind.BOOL: st.booleans(),
    TypeKind.BYTES: st.binary(max_size=8),
    TypeKind.DURATION: st.integers(INT_MIN, INT_MAX).map(Duration),
    TypeKind.TIMESTAMP: st.integers(-62_135_596_800 * 10**9, 253_402_300_799 * 10**9).map(Timestamp),
}
_ANYTHING = st.recursive(
    st.one_of(st.none(), *_SCALARS.values()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXTS, inner, max_size=2)),
    max_leaves=5,
)


def _made(call: str, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return texts.map(CALLS[call])


_OPAQUE: dict[str, st.SearchStrategy[Any]] = {
    QUANTITY.name: _made("string_to_quantity", st.sampled_from(["0", "-1", "1.5Gi", "1n", "9E", "1e18"])),
    IP.name: _made("string_to_ip", st.sampled_from(["0.0.0.0", "::1", "255.255.255.255", "fe80::"])),
    CIDR.name: _made("string_to_cidr", st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "::/0", "::1/128"])),
    URL.name: _made("string_to_url", st.sampled_from(["/", "http://a:1/%2f?b&c=%zz", "a:b", "*"])),
    SEMVER.name: _made("string_to_semver", st.sampled_from(["0.0.0", "1.2.3-a.1+b"])),
    FORMAT.name: st.sampled_from(list(FORMATS.values())),
}


def values_of(type_: Type) -> st.SearchStrategy[Any]:
    if type_.kind in _SCALARS:
        return _SCALARS[type_.kind]
    if type_.kind is TypeKind.LIST:
        return st.lists(values_of(type_.element), max_size=5)
    if type_.kind is TypeKind.OPTIONAL:
        return st.one_of(st.just(OptionalValue(has_value=False)), values_of(type_.element).map(OptionalValue))
    return _OPAQUE.get(type_.name, _ANYTHING)


FUZZED = {name: o for name, o in OVERLOADS.items() if not any("authorization" in t.name for t in o.args)}


@pytest.mark.parametrize("overload", FUZZED.values(), ids=FUZZED)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_a_call_returns_a_value_or_raises_an_error(overload: Overload, data: st.DataObject) -> None:
    args = [data.draw(values_of(type_)) for type_ in overload.args]
    try:
        result = overload.call(*args)
    except (EvaluationError, CostExceeded):
        return
    if overload.result.kind in _SCALARS:
        assert type_of(result).kind is overload.result.kind
    assert overload.call_cost is None or overload.call_cost(args, result) >= 0


ESTIMATED = {name: overload.estimate for name, overload in OVERLOADS.items() if overload.estimate is not None}


@pytest.mark.parametrize(("name", "estimate"), ESTIMATED.items(), ids=ESTIMATED)
def test_estimates_have_bounds(name: str, estimate: CallEstimator) -> None:
    """From a lower to a higher one, whatever is known; as large as may be where nothing is."""
    for size in (Bounds(0, 0), ONE, Bounds(0, 1000), ANY):
        estimated = estimate([Argument(type_, size) for type_ in OVERLOADS[name].args])
        assert 0 <= estimated.cost.low <= estimated.cost.high <= ANY.high
        assert estimated.size is None or estimated.size.high <= ANY.high


@given(
    st.one_of(
        st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address),
        st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address),
    )
)
def test_addresses_equal_those_of_python(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return
    for text in (str(address), address.exploded):
        ip = CALLS["string_to_ip"](text)
        assert str(ip) == str(address)
        assert CALLS["ip_is_loopback"](ip) is address.is_loopback
        assert CALLS["ip_is_unspecified"](ip) is address.is_unspecified
        assert CALLS["ip_is_link_local_unicast"](ip) is address.is_link_local


@given(st.text("0123456789abcf.:", max_size=20))
def test_valid_addresses_are_valid_in_python(text: str) -> None:
    try:
        known = ipaddress.ip_address(text)
        is_known = not (isinstance(known, ipaddress.IPv6Address) and known.ipv4_mapped)
    except ValueError:
        is_known = False
    assert CALLS["is_ip"](text) is is_known
