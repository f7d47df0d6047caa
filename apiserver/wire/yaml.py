"""YAML as Kubernetes uses it: another encoding of JSON values. Rows D02, E04.

Only values that JSON has are decoded: strings, numbers, booleans, null, lists, and objects with strings as
keys. Plain scalars follow YAML 1.1 (`yes` is true, `017` is 15), except that times are strings, and so are
numbers of base 60. A body is parsed event by event, so that the depth and the expansion of aliases are
bounded here. Source: sigs.k8s.io/yaml and its goyaml.v2, resolve.go.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterator, Sequence
from typing import Any, Final, NoReturn

import yaml

from apiserver.golang.quoting import go_quote

# All wheels of the package have both; a build without libyaml is only slower.
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DUMPER: Final[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

DEPTH_MAX: Final = 200
_TOO_DEEP: Final = f"document is nested more than {DEPTH_MAX} deep"
# libyaml looks ahead, and has its own limit since 0.2.6.
_LIBYAML_TOO_DEEP: Final = "exceeded maximum nesting depth"
# In a document, with all aliases expanded. The largest object that can be stored has fewer.
VALUES_MAX: Final = 100_000
DUPLICATES_MAX: Final = 1_000
# Messages go into logs and terminals.
MESSAGE_LENGTH_MAX: Final = 1_000


class InvalidYaml(ValueError):
    """A text that is not a valid document. The message is for the client."""


def load(body: bytes) -> tuple[Any, list[str]]:
    """Decode the first document in a body; also returns a warning for each duplicate key.

    Later documents are not read, as in Kubernetes. The last value of a duplicate key counts. `strict_error`
    makes one error of the warnings.
    Raises InvalidYaml.
    """
    reader = _Reader()
    try:
        for event in yaml.parse(body, Loader=_LOADER):
            if isinstance(event, yaml.DocumentEndEvent):
                break
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        problem = _TOO_DEEP if error.problem == _LIBYAML_TOO_DEEP else error.problem
        raise InvalidYaml(f"yaml: {_where(error)}{problem}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidYaml(f"yaml: {getattr(error, 'reason', None) or 'invalid text'}") from None
    return reader.document, reader.duplicates


def strict_error(duplicates: Sequence[str]) -> str:
    """Returns the error about all duplicate keys, in the words of Go's decoder."""
    return "\n  ".join(["yaml: unmarshal errors:", *duplicates])


def _where(error: yaml.MarkedYAMLError) -> str:
    """Returns the line as Go's decoder counts it; errors of its parser name the line before."""
    marks = (error.context_mark, error.problem_mark)
    line = next((mark.line for mark in marks if mark is not None and mark.line), 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: " if line else ""


class _OpenCollection:
    """A list or an object whose end has not been read yet."""

    __slots__ = ("anchor", "first_value", "is_merge", "key", "line", "merged", "values")

    def __init__(self, values: list[Any] | dict[str, Any], anchor: str | None, first_value: int) -> None:
        self.values, self.anchor, self.first_value = values, anchor, first_value
        self.key: str | None = None  # the key whose value comes next; None if a key comes next
        self.line = 0  # the line of that key
        self.is_merge = False  # that key is a plain `<<`
        self.merged: list[dict[str, Any]] | None = None  # the objects that `<<` merges in


_MERGE: Final = "<<"


class _Reader:
    def __init__(self) -> None:
        self.document: Any = None
        self.duplicates: list[str] = []
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}  # each with the number of values in it
        self._values = 0

    def take(self, event: Any) -> None:
        """Add one event. Raises InvalidYaml."""
        match event:
            case yaml.ScalarEvent():
                self._count(event)
                if event.tag is not None and event.tag not in _TAGS:
                    _fail(event, f"cannot decode {event.tag}")
                value = event.value if _is_text(event) else resolve(event.value)
                if type(value) is float and not math.isfinite(value):
                    _fail(event, f"json: unsupported value: {event.value}")
                if event.anchor is not None:
                    self._anchors[event.anchor] = (value, 1)
                self._put(value, event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    _fail(event, f"unknown anchor '{event.anchor}' referenced")
                value, count = self._anchors[event.anchor]
                self._count(event, count)
                self._put(_copy(value), event)

    def _count(self, event: Any, values: int = 1) -> None:
        self._values += values
        if self._values > VALUES_MAX:
            _fail(event, f"document has more than {VALUES_MAX} values")

    def _begin(self, values: list[Any] | dict[str, Any], event: Any) -> None:
        self._count(event)
        if event.tag is not None and event.tag not in _TAGS:
            _fail(event, f"cannot decode {event.tag}")
        if self._open and self._expects_key(self._open[-1]):
            _fail(event, "an object or a list cannot be a key")
        if len(self._open) == DEPTH_MAX:
            _fail(event, _TOO_DEEP)
        self._open.append(_OpenCollection(values, event.anchor, self._values))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        values = done.values
        if done.merged is not None and isinstance(values, dict):
            for merged in done.merged:
                for name, value in merged.items():
                    values.setdefault(name, value)
        if done.anchor is not None:
            self._anchors[done.anchor] = (values, self._values - done.first_value + 1)
        self._put(values, event)

    @staticmethod
    def _expects_key(into: _OpenCollection) -> bool:
        return isinstance(into.values, dict) and into.key is None

    def _put(self, value: Any, event: Any) -> None:
        if not self._open:
            self.document = value
            return
        into = self._open[-1]
        if isinstance(into.values, list):
            into.values.append(value)
        elif into.key is None:
            into.key, into.line = _key_of(value, event), event.start_mark.line + 1
            into.is_merge = value == _MERGE and isinstance(event, yaml.ScalarEvent) and not _is_text(event)
            if into.key in into.values and len(self.duplicates) < DUPLICATES_MAX:
                shown = go_quote(value) if type(value) is str else into.key
                self.duplicates.append(f"line {into.line}: key {shown} already set in map")
        elif into.is_merge:
            self._merge(value, into, event)
        else:
            into.values[into.key] = value
            into.key = None

    @staticmethod
    def _merge(value: Any, into: _OpenCollection, event: Any) -> None:
        """Merge other objects by `<<: *other`; the object's own members override theirs."""
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in merged):
            _fail(event, "map merge requires map or sequence of maps as the value")
        into.merged, into.key = [*(into.merged or ()), *merged], None


def _fail(event: Any, why: str) -> NoReturn:
    """Raise InvalidYaml. why: the reason, which may contain text of the client, of any length."""
    message = why if len(why) <= MESSAGE_LENGTH_MAX else f"{why[:MESSAGE_LENGTH_MAX]}..."
    raise InvalidYaml(f"yaml: line {event.start_mark.line + 1}: {message}")


# The explicit tags of JSON's types; others are refused.
_TAGS: Final = frozenset(
    {"!", *(f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq"))}
)


def _is_text(event: Any) -> bool:
    """Returns whether a scalar is always a string: quoted, a block, or tagged as one."""
    if event.tag is not None:
        return event.tag in ("!", "tag:yaml.org,2002:str")
    return not event.implicit[0]


def _key_of(value: Any, event: Any) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return f"{value:g}"
        case _:
            _fail(event, "a key must not be null")


def _copy(value: Any) -> Any:
    """Returns a copy of an aliased value. Recursive, since the depth of documents is limited."""
    match value:
        case dict():
            return {name: _copy(child) for name, child in value.items()}
        case list():
            return [_copy(child) for child in value]
        case _:
            return value


# ---- plain scalars

_WORDS: Final[dict[str, Any]] = {
    **{form: True for word in ("y", "yes", "true", "on") for form in (word, word.title(), word.upper())},
    **{form: False for word in ("n", "no", "false", "off") for form in (word, word.title(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{sign + form: math.inf for sign in ("", "+") for form in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_MAY_BE_NUMBER: Final = re.compile(r"[-+.0-9]")
_DECIMAL: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_WITH_BASE: Final = re.compile(r"([-+]?)0(?:x([0-9a-f]+)|o?([0-7]+)|b([01]+))", re.IGNORECASE)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Larger integers lose digits, as in Go.
_INTEGER_MIN: Final = -(1 << 63)
_INTEGER_MAX: Final = (1 << 64) - 1
_DIGITS_MAX: Final = 400


def resolve(text: str) -> Any:
    """Returns the value of a plain scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if not _MAY_BE_NUMBER.match(text) or len(text) > _DIGITS_MAX:
        return text
    digits = text.replace("_", "")
    if _DECIMAL.fullmatch(digits):
        return _whole(int(digits), text)
    if based := _WITH_BASE.fullmatch(digits):
        sign, hexadecimal, octal, binary = based.groups()
        whole = int(hexadecimal or octal or binary, 16 if hexadecimal else 8 if octal else 2)
        return _whole(-whole if sign == "-" else whole, text)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if math.isinf(number):
            return text
        # JSON does not distinguish 1.0 from 1.
        return int(number) if number.is_integer() and abs(number) < _INTEGER_MAX / 2 else number
    return text


def _whole(number: int, text: str) -> Any:
    """Returns the number, or the text if it is too large for a float, as in Go."""
    try:
        return number if _INTEGER_MIN <= number <= _INTEGER_MAX else float(number)
    except OverflowError:
        return text


# ---- encoding

_NEVER_FOLDED: Final = 1 << 30
_YAML_1_1: Final[Any] = yaml.resolver.Resolver()
_PLAIN: Final = (True, False)
_STRING_TAG: Final = "tag:yaml.org,2002:str"
# The letters with which no word, number or time begins, for this decoder or for one of YAML 1.1.
_BEGINS_TEXT: Final = frozenset(
    letter for letter in string.ascii_letters if letter not in _YAML_1_1.yaml_implicit_resolvers
) - {word[:1] for word in _WORDS}


def dump(document: Any) -> bytes:
    """Encode a document, with sorted keys as in Kubernetes."""
    text: bytes = yaml.emit(
        _document_events(document), Dumper=_DUMPER, width=_NEVER_FOLDED, allow_unicode=True
    ).encode()
    return text


def _document_events(document: Any) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent(encoding=None)
    yield yaml.DocumentStartEvent(explicit=False)
    events: list[yaml.Event] = []
    _append_events(document, events)
    yield from events
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _append_events(value: Any, events: list[yaml.Event]) -> None:
    match value:
        case str():
            events.append(_text_event(value))
        case dict():
            events.append(yaml.MappingStartEvent(None, None, True, flow_style=not value))
            for name in sorted(value):
                events.append(_text_event(name))
                _append_events(value[name], events)
            events.append(_MAPPING_END)
        case list():
            events.append(yaml.SequenceStartEvent(None, None, True, flow_style=not value))
            for child in value:
                _append_events(child, events)
            events.append(_SEQUENCE_END)
        case None:
            events.append(_plain("null"))
        case bool():
            events.append(_plain("true" if value else "false"))
        case float():
            events.append(_plain(_float_text(value)))
        case _:
            events.append(_plain(str(value)))


_MAPPING_END: Final = yaml.MappingEndEvent()
_SEQUENCE_END: Final = yaml.SequenceEndEvent()


def _text_event(text: str) -> yaml.Event:
    if "\n" in text:
        return yaml.ScalarEvent(None, None, (False, True), text, style="|")
    # Quoted if this decoder, or a strict one of YAML 1.1, would not decode a string without: a time, a number
    # of base 60. The emitter decides about the rest.
    if text[:1] in _BEGINS_TEXT:
        return yaml.ScalarEvent(None, None, (True, True), text, style=None)
    is_plain = type(resolve(text)) is str and _YAML_1_1.resolve(yaml.ScalarNode, text, _PLAIN) == _STRING_TAG
    return yaml.ScalarEvent(None, None, (is_plain, True), text, style=None if is_plain else '"')


def _float_text(value: float) -> str:
    """Returns the text of a float with a point; some decoders read it as a string without one."""
    mantissa, mark, exponent = repr(value).partition("e")
    return f"{mantissa}.0e{exponent}" if mark and "." not in mantissa else repr(value)


def _plain(text: str) -> yaml.Event:
    return yaml.ScalarEvent(None, None, (True, False), text)
