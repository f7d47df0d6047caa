"""Quantities: which are valid, and their canonical form. Source: apimachinery, pkg/api/resource."""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.quantity import (
    DIGITS_MAX,
    EXPONENT_MAX,
    LENGTH_MAX,
    InvalidQuantity,
    canonical_quantity,
    parse_quantity,
    quantity_text,
    ratio_text,
)

CANONICAL: Final = {
    # text -> as it is written; the first two are recorded
    "0.50": "500m",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "0": "0",
    "-0": "0",
    "0Ki": "0",
    "0e400": "0",
    ".5": "500m",
    "0.5": "500m",
    "0.500": "500m",
    "1.5": "1500m",
    "1.50": "1500m",
    "1.000": "1",
    "1000": "1k",
    "1500m": "1500m",
    "2000m": "2",
    "100000k": "100M",
    "1023": "1023",
    "1025Ki": "1025Ki",
    "1000Ki": "1000Ki",
    "0.5Ki": "512",
    "1.5Ki": "1536",
    "0.001Ki": "1024m",
    "-0.5Gi": "-512Mi",
    "1e3": "1e3",
    "10e2": "1e3",
    "10e-1": "1",
    "1e1": "10",
    "1E": "1E",
    "129e6": "129e6",
    "1n": "1n",
    "3.001n": "4n",
    "0.1n": "1n",
    "-0.1n": "-1n",
    "1e-12": "1e-9",
    "1e-1000": "1e-9",
    "0.00000012345": "124n",
    "0.000000000001Ki": "2n",
    # a binary suffix is given up when it would lose what is finer than one
    "1.3Ki": "1331200m",
    "100.035Ki": "102435840m",
    "0.025Ti": "27487790694400m",
    # taken for canonical
    "+5": "+5",
    "00012": "00012",
    "5.": "5.",
    "1.500": "1.500",
    "-12.345": "-12.345",
    "1.500001": "1.500001",
    "12E6": "12E6",
    "1E-3": "1E-3",
    "+1Ki": "+1Ki",
    # Kubernetes reads no digits as zero
    ".": "0",
    "+": "0",
    "-.": "0",
    "Ki": "0",
    "E3": "0",
    # only what has a binary suffix is capped
    "9223372036854775807": "9223372036854775807",
    "9223372036854775808": "9223372036854775808",
    "9999999999999999999999": "9999999999999999999999",
    "9999999999999999999999999999999999999G": "9999999999999999999999999999999999999G",
    "-9223372036854775809": "-9223372036854775809",
    "10E": "10E",
    "12E": "12E",
    "-100E": "-100E",
    "1e30": "1e30",
    "12345678901234567890123e-3": "12345678901234567890123e-3",
    "123456789012345678901234567890.123456789": "123456789012345678901234567890123456789n",
    "3Ei": "3Ei",
    "7.5Ei": "7680Pi",
    "8Ei": "9223372036854775807",
    "9Ei": "9223372036854775807",
    "-8Ei": "-9223372036854775807",
    "9223372036854775807Ki": "9223372036854775807",
    # Kubernetes writes 1, 1 and 1234567890123, as it has no larger suffix
    "1000E": "1000E",
    "1000000000000000000000": "1000E",
    "1234567890123000000000000000000000": "1234567890123000E",
    # There is no largest value, nor a least one but a billionth.
    "1e200": "100e198",
    "-12e199": "-120e198",
    "1e2147483647": "10e2147483646",
    "1e-2147483647": "1e-9",
    "0e2147483647": "0",
}


@pytest.mark.parametrize(("text", "written"), CANONICAL.items())
def test_each_quantity_has_one_text(text: str, written: str) -> None:
    assert canonical_quantity(text) == written
    assert canonical_quantity(written) == written


LONG: Final = {
    "the last that is written out": ("1" + "0" * 199, "1" + "0" * 181 + "E"),
    "the first that is not": ("1" + "0" * 200, "100e198"),
    "many zeros": ("1" + "0" * 10_100, "100e10098"),
    "many digits": ("9" * DIGITS_MAX + "e1", "9" * DIGITS_MAX + "0"),
    "many digits and a power": ("9" * DIGITS_MAX + "e2147483647", "9" * DIGITS_MAX + "0e2147483646"),
    "many places": (f"0.{'0' * 9_000}1", "1n"),
}


@pytest.mark.parametrize(("text", "written"), LONG.values(), ids=LONG)
def test_each_long_quantity_has_one_text(text: str, written: str) -> None:
    # No difference of such texts is worth the time to find it.
    assert [canonical_quantity(text) == written, canonical_quantity(written) == written] == [True, True]


NO_QUANTITIES: Final = {
    "": "must match the regular expression",
    "abc": "must match the regular expression",
    "1 Gi": "must match the regular expression",
    "Kix": "must match the regular expression",
    "1e3k": "must match the regular expression",
    "1.1.M": "must match the regular expression",
    "1+1.0M": "must match the regular expression",
    "0.1mi": "unable to parse quantity's suffix",
    "0.1am": "must match the regular expression",
    ".5i": "unable to parse quantity's suffix",
    "-3.01e-": "unable to parse quantity's suffix",
    "1+5": "unable to parse quantity's suffix",
    "1k5": "unable to parse quantity's suffix",
    "1ee5": "unable to parse quantity's suffix",
    " 1": "must match the regular expression",
    "1 ": "must match the regular expression",
    "\N{FULLWIDTH DIGIT ONE}": "must match the regular expression",
    "1\n": "must match the regular expression",
    "NaN": "must match the regular expression",
    "Infinity": "must match the regular expression",
    "1_000": "must match the regular expression",
    "1e": "unable to parse quantity's suffix",
    "1ki": "unable to parse quantity's suffix",
    "1Kii": "unable to parse quantity's suffix",
    "1K": "unable to parse quantity's suffix",
    "1e2147483648": "unable to parse quantity's suffix",
    "1e-2147483648": "unable to parse quantity's suffix",
    "1e99999999999999999999": "unable to parse quantity's suffix",
    "e-10": "unable to parse numeric part of quantity",
    ".e-10": "unable to parse numeric part of quantity",
    "1.2.3": "must match the regular expression",
    "9" * (DIGITS_MAX + 1): "must not have more than 10000 digits",
    f"{'9' * DIGITS_MAX}.9Ki": "must not have more than 10000 digits",
    "0" * LENGTH_MAX + "1": "must not have more than 10000 digits",
}


@pytest.mark.parametrize(("text", "why"), NO_QUANTITIES.items(), ids=(text[-20:] for text in NO_QUANTITIES))
def test_invalid_quantities_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidQuantity, match=why):
        parse_quantity(text)


def test_what_is_too_long_to_be_exact_is_rounded_away_from_zero() -> None:
    huge, one = parse_quantity("1e2147483647"), parse_quantity("1")
    assert huge < huge + one < huge + huge
    assert str(huge + one).endswith("0010e2147473647")
    assert str(parse_quantity("-1e2147483647") - one).endswith("0010e2147473647")


def test_integers_of_quantities_are_bounded() -> None:
    """Whatever counts with them is done in microseconds: Kubernetes' integers have 64 bits."""
    for text in ("1e200", "1e2147483647", "9" * DIGITS_MAX):
        assert parse_quantity(text).rounded_up() == 10**200
        assert parse_quantity(f"-{text}").rounded_up() == -(10**200)
    assert parse_quantity("1e199").rounded_up() == 10**199


RATIOS: Final = {
    "a ratio": ("3", "2", "1.500000"),
    "of numbers that are no doubles": ("1e400", "1", "+Inf"),
    "of negative ones": ("-1e400", "1", "-Inf"),
    "of two of them": ("1e400", "1e400", "NaN"),
    "of one to a larger one": ("1", "1e400", "0.000000"),
}


@pytest.mark.parametrize(("one", "other", "text"), RATIOS.values(), ids=RATIOS)
def test_ratios(one: str, other: str, text: str) -> None:
    assert ratio_text(parse_quantity(one).value, parse_quantity(other).value) == text


def test_quantities_compare_by_value() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024") != parse_quantity("1k")
    assert parse_quantity("999m") < parse_quantity("1") <= parse_quantity("1e0")
    assert hash(parse_quantity("1Ki")) == hash(parse_quantity("1024"))
    assert parse_quantity("1001m").rounded_up() == 2
    largest = parse_quantity("9223372036854775807")
    assert largest < parse_quantity("9223372036854775808") < parse_quantity("10E") < parse_quantity("1e199")
    assert parse_quantity("1e30") != parse_quantity("1000000000000000000000000000001")
    assert parse_quantity("1e30") == parse_quantity("1000000000000000000000000000000000m")
    assert parse_quantity("1e100").is_whole
    assert not parse_quantity("1000000000000000000000000000000.5").is_whole


# encoding/json, floatEncoder
NUMBERS: Final = {
    1: "1",
    -3: "-3",
    9223372036854775808: "9223372036854775808",
    2.0: "2",
    1.5: "1.5",
    -0.1: "-0.1",
    0.00001: "0.00001",
    0.000001: "0.000001",
    0.0000001: "1e-7",
    1.5e-9: "1.5e-9",
    1e16: "10000000000000000",
    123456789012345680000.0: "123456789012345680000",
    1e21: "1e+21",
    1.5e300: "1.5e+300",
}


@pytest.mark.parametrize(("number", "text"), NUMBERS.items())
def test_numbers_are_quantities_in_the_text_that_go_gives_them(number: float, text: str) -> None:
    assert quantity_text(number) == text


SUMS: Final = {
    "of equal forms": ("1Gi", "512Mi", "1536Mi"),
    "the form is that of the first": ("1k", "1Ki", "2024"),
    "unless that is zero": ("0", "1Ki", "1Ki"),
    "no digit is lost": ("123456789012345678901234567890", "1n", "123456789012345678901234567890000000001n"),
    "beyond 2^63": ("9223372036854775807", "1", "9223372036854775808"),
    "of binary quantities, too": ("4Ei", "4Ei", "8Ei"),
    "of the largest and the smallest": ("1e2147483647", "-1e2147483647", "0"),
    "of the largest": ("9e2147483647", "9e2147483647", "180e2147483646"),
    "of numbers far apart": ("1e400", "1", f"1{'0' * 399}1"),
    "of a binary quantity and one that is not written out": ("1Gi", "1e200", f"1{'0' * 190}1073741824"),
    "below zero": ("1", "-2500m", "-1500m"),
}


@pytest.mark.parametrize(("one", "other", "total"), SUMS.values(), ids=SUMS)
def test_sums(one: str, other: str, total: str) -> None:
    assert str(parse_quantity(one) + parse_quantity(other)) == total
    there_and_back = parse_quantity(one) + parse_quantity(other) - parse_quantity(other)
    assert there_and_back == parse_quantity(one)


ROUNDED: Final = {
    # text -> rounded to thousandths
    "1500u": "2m",
    "-1500u": "-2m",
    "1.500": "1.500",
    "1.500001": "1501m",
    "1E-3": "1E-3",
    "1E-6": "1e-3",
    "1Gi": "1Gi",
    "0.0001Ki": "103m",
    "123456789012345678901234567890.0001": "123456789012345678901234567890001m",
}


@pytest.mark.parametrize(("text", "written"), ROUNDED.items(), ids=ROUNDED)
def test_quantities_are_rounded_away_from_zero(text: str, written: str) -> None:
    assert str(parse_quantity(text).with_scale(-3)) == written


HELD: Final = {
    # text -> the power of ten of a 64-bit integer, or in arbitrary precision
    "1": 0,
    "1.5": -1,
    "50k": 3,
    "2Gi": 0,
    "1.5Gi": None,
    "999999999999999999": 0,
    "1000000000000000000": None,
    "1e199": 199,
    "1e-10": None,
    "99999999999Ki": 0,
    "999999999999Ki": None,
    "1Ei": None,
}


@pytest.mark.parametrize(("text", "scale"), HELD.items(), ids=HELD)
def test_how_kubernetes_holds_a_quantity(text: str, scale: int | None) -> None:
    assert parse_quantity(text).scale == scale


_SUFFIXES: Final = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_DIGITS_MAX: Final = 40


def _texts(exponent_max: int) -> st.SearchStrategy[str]:
    return st.builds(
        lambda sign, zeros, whole, places, suffix: f"{sign}{zeros}{whole}{places}{suffix}",
        st.sampled_from(["", "-", "+"]),
        st.sampled_from(["", "0", "000"]),
        st.integers(0, 10**_DIGITS_MAX).map(str),
        st.just("") | st.text("0123456789", max_size=25).map(lambda places: f".{places}"),
        st.sampled_from(_SUFFIXES) | st.integers(-exponent_max, exponent_max).map(lambda power: f"e{power}"),
    )


# Those that Python's exact fractions can compute with, too.
_TEXTS: Final = _texts(1_000)


@given(_TEXTS | _texts(EXPONENT_MAX))
def test_writing_changes_no_value(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert (again, str(again)) == (quantity, str(quantity))


@given(_TEXTS)
def test_parsing_changes_only_what_is_too_fine_or_capped(text: str) -> None:
    quantity = parse_quantity(text).value
    number = text.rstrip("niumkKMGTPE")
    suffix = text[len(number) :]
    factor = 2 ** (10 * " KMGTPE".index(suffix[0])) if "i" in suffix else 1
    decimal = dict(zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)).get(suffix, 0)
    exact = Fraction(number) * factor * Fraction(10) ** decimal
    if factor > 1 and abs(exact) > 2**63 - 1:
        assert abs(quantity) == 2**63 - 1
        return
    assert 0 <= abs(Fraction(quantity)) - abs(exact) < Fraction(1, 10**9)
    assert not quantity or (quantity > 0) == (exact > 0)


@given(_TEXTS, _TEXTS)
def test_sums_and_comparisons_are_exact(one: str, other: str) -> None:
    a, b = parse_quantity(one), parse_quantity(other)
    x, y = Fraction(a.value), Fraction(b.value)
    assert (Fraction((a + b).value), Fraction((a - b).value)) == (x + y, x - y)
    assert (a < b, a == b, a > b) == (x < y, x == y, x > y)


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP", max_size=20))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        parse_quantity(text)
