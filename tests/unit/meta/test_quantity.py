"""Quantities: which are valid, and their canonical form. Source: apimachinery, pkg/api/resource."""

from __future__ import annotations

import contextlib
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver.meta.quantity import LENGTH_MAX, InvalidQuantity, canonical_quantity, parse_quantity

CANONICAL: Final = {
    # text -> as it is written; the first two are recorded
    "0.50": "500m",
    "1024Mi": "1Gi",
    "1.5Gi": "1536Mi",
    "0": "0",
    "-0": "0",
    "0Ki": "0",
    "+5": "5",
    "5.": "5",
    ".5": "500m",
    "1000": "1k",
    "1500m": "1500m",
    "2000m": "2",
    "100000k": "100M",
    "1023": "1023",
    "1025Ki": "1025Ki",
    "1000Ki": "1000Ki",
    "0.5Ki": "512",
    "1.3Ki": "1332",
    "0.001Ki": "1024m",
    "-0.5Gi": "-512Mi",
    "1e3": "1e3",
    "12E6": "12e6",
    "10e-1": "1",
    "1E": "1E",
    "129e6": "129e6",
    "1n": "1n",
    "0.1n": "1n",
    "-0.1n": "-1n",
    "1e-12": "1e-9",
    "9223372036854775807": "9223372036854775807",
    "9999999999999999999999": "9223372036854775807",
    "-100E": "-9223372036854775807",
    "00012": "12",
}


@pytest.mark.parametrize(("text", "written"), CANONICAL.items())
def test_each_quantity_has_one_text(text: str, written: str) -> None:
    assert canonical_quantity(text) == written
    assert canonical_quantity(written) == written


NO_QUANTITIES: Final = {
    "": "must match the regular expression",
    "abc": "must match the regular expression",
    "1 Gi": "must match the regular expression",
    "Ki": "must match the regular expression",
    "\N{FULLWIDTH DIGIT ONE}": "must match the regular expression",
    "1\n": "must match the regular expression",
    "NaN": "must match the regular expression",
    "Infinity": "must match the regular expression",
    "1_000": "must match the regular expression",
    "1e": "unable to parse quantity's suffix",
    "1ki": "unable to parse quantity's suffix",
    "1Kii": "unable to parse quantity's suffix",
    "1K": "unable to parse quantity's suffix",
    "1e99999": "unable to parse quantity's suffix",
    "1.2.3": "unable to parse numeric part of quantity",
    "9" * (LENGTH_MAX + 1): "must match the regular expression",
}


@pytest.mark.parametrize(("text", "why"), NO_QUANTITIES.items(), ids=(text[:20] for text in NO_QUANTITIES))
def test_invalid_quantities_are_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidQuantity, match=why):
        parse_quantity(text)


def test_quantities_compare_by_value() -> None:
    assert parse_quantity("1Ki") == parse_quantity("1024") != parse_quantity("1k")
    assert parse_quantity("999m") < parse_quantity("1") <= parse_quantity("1e0")
    assert hash(parse_quantity("1Ki")) == hash(parse_quantity("1024"))
    assert parse_quantity("1001m").rounded_up() == 2
    assert parse_quantity("1.5").rounded_up(Decimal("0.001")) == 1500


_TEXTS: Final = st.builds(
    lambda sign, number, suffix: f"{sign}{number}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.decimals(min_value=0, max_value=10**12, allow_nan=False, places=6).map(lambda d: f"{d:f}"),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-2"]),
)


@given(_TEXTS)
def test_writing_changes_no_value(text: str) -> None:
    quantity = parse_quantity(text)
    again = parse_quantity(str(quantity))
    assert str(again) == str(quantity)
    # What is finer than a text with a binary suffix can say is rounded away from zero.
    assert abs(again.value) >= abs(quantity.value)
    assert abs(again.value - quantity.value) < 1


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP", max_size=20))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidQuantity):
        parse_quantity(text)
