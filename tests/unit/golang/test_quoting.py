"""Quoted strings and the errors of numbers, as in Go's package strconv."""

from __future__ import annotations

import pytest

from apiserver.golang.quoting import go_quote, strconv_error

# https://pkg.go.dev/strconv#Quote
QUOTED = {
    "letters as they are": ("abc", '"abc"'),
    "letters of any script as they are": ("é", '"é"'),
    "a quote is escaped": ('a"b', r'"a\"b"'),
    "a backslash is escaped": ("a\\b", r'"a\\b"'),
    "a line end is escaped": ("1\n", r'"1\n"'),
    "a control character is escaped": ("1\x00", r'"1\x00"'),
    "an invisible character is escaped": ("1\u200b\U000e0001", r'"1\u200b\U000e0001"'),
    "a printable character beyond the first plane is as it is": ("😀", '"😀"'),
}


@pytest.mark.parametrize(("text", "quoted"), QUOTED.values(), ids=QUOTED)
def test_a_quoted_text(text: str, quoted: str) -> None:
    assert go_quote(text) == quoted


# https://pkg.go.dev/strconv#NumError
def test_the_error_of_a_number_names_the_function_and_quotes_the_text() -> None:
    message = strconv_error("ParseUint", '1"\n', "invalid syntax")
    assert message == r'strconv.ParseUint: parsing "1\"\n": invalid syntax'
