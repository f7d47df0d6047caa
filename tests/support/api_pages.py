"""Writes Markdown about public Python names, from their signatures and docstrings."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

_WIDTH: Final = 96
# A paragraph of a docstring begins so, and a parameter, a field or several of them.
_PARAGRAPH: Final = re.compile(r"(?:Raises|Returns|Yields) ")
_DETAIL: Final = re.compile(r"([a-z_]\w*(?:, [a-z_]\w*)*): (.*)")
_NO_DEFAULT: Final = inspect.Parameter.empty


class Docstring(NamedTuple):
    """The paragraphs of a docstring, and what it says of parameters or fields, by their names."""

    paragraphs: list[str]
    details: dict[tuple[str, ...], str]


def parse_docstring(text: str, known: Mapping[str, str]) -> Docstring:
    """Splits a docstring into paragraphs and details. known: the names that may have details."""
    paragraphs: list[str] = []
    details: dict[tuple[str, ...], str] = {}
    current: tuple[str, ...] | None = None
    is_open = False
    for line in text.splitlines():
        found = _DETAIL.match(line)
        names = tuple(found[1].split(", ")) if found else ()
        if names and {*names} <= known.keys():
            assert found is not None
            current, details[names], is_open = names, found[2], False
        elif current is not None and line.startswith("    "):
            details[current] += f" {line.strip()}"
        elif not line.strip():
            current, is_open = None, False
        elif is_open and not _PARAGRAPH.match(line):
            paragraphs[-1] += f" {line.strip()}"
        else:
            current, is_open = None, True
            paragraphs.append(line.strip())
    return Docstring(paragraphs, details)


def class_page(kind: type, *, is_constructed: bool) -> Iterator[str]:
    """Yields the lines about a class: its constructor, if users call it, fields, properties and methods."""
    yield f"### {kind.__name__}\n"
    fields = _fields(kind)
    if is_constructed:
        yield from _code(_signature(kind.__name__, kind, returns=False))
    elif issubclass(kind, Exception) and (base := kind.__mro__[1]) is not Exception:
        yield f"A subclass of `{base.__name__}`.\n"
    yield from _described(kind, fields, with_types=not is_constructed and not issubclass(kind, Exception))
    for name, member in vars(kind).items():
        if not name.startswith("_") and inspect.getdoc(member):
            if isinstance(member, property):
                yield f"#### {kind.__name__}.{name}\n"
                assert member.fget is not None
                yield from _code(f"{name}: {_text_of(inspect.signature(member.fget).return_annotation)}")
                yield from _described(member, {}, with_types=False)
            elif inspect.isfunction(member) and not dataclasses.is_dataclass(kind):
                yield f"#### {kind.__name__}.{name}()\n"
                yield from _code(_signature(name, member, returns=True))
                yield from _described(member, _parameters(member), with_types=False)


def _described(thing: object, known: Mapping[str, str], *, with_types: bool) -> Iterator[str]:
    """Yields the docstring of something. known: the types of its parameters or fields, by their names."""
    docstring = parse_docstring(inspect.getdoc(thing) or "", known)
    (first, *rest), details = docstring.paragraphs, docstring.details
    yield f"{_wrapped(first)}\n"
    if details:
        for names, text in details.items():
            typed = (f"{each}: {known[each]}" if with_types else each for each in names)
            yield _wrapped(f"{', '.join(f'`{each}`' for each in typed)}: {text}", "- ")
        yield ""
    for paragraph in rest:
        yield f"{_wrapped(paragraph)}\n"


def _fields(kind: type) -> dict[str, str]:
    """Returns the types of a class's fields, or of the parameters of its constructor."""
    if not issubclass(kind, Exception):
        return _parameters(kind)
    own = vars(kind).get("__init__")
    return {} if own is None else dict.fromkeys((*_parameters(own), *_assigned(own)), "")


def _assigned(function: Callable[..., Any]) -> list[str]:
    """Returns the names of the attributes that a constructor sets."""
    return re.findall(r"self\.([a-z]\w*)", inspect.getsource(function))


def _parameters(function: Callable[..., Any]) -> dict[str, str]:
    parameters = inspect.signature(function).parameters
    return {name: _text_of(each.annotation) for name, each in parameters.items() if name != "self"}


def _signature(name: str, function: Callable[..., Any], *, returns: bool) -> str:
    signature = inspect.signature(function)
    parts: list[str] = []
    is_keyword = False
    for each in signature.parameters.values():
        if each.name == "self":
            continue
        if each.kind is each.KEYWORD_ONLY and not is_keyword:
            is_keyword = True
            parts.append("*")
        is_star = each.kind is each.VAR_POSITIONAL
        is_keyword = is_keyword or is_star
        default = "" if each.default is _NO_DEFAULT else f" = {_default(each.default)}"
        parts.append(f"{'*' if is_star else ''}{each.name}: {_text_of(each.annotation)}{default}")
    end = f" -> {_text_of(signature.return_annotation)}" if returns else ""
    line = f"{name}({', '.join(parts)}){end}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){end}"])


def _default(value: object) -> str:
    """Returns a default as text; a function, or an object with fields, is `...`."""
    return "..." if inspect.isfunction(value) or dataclasses.is_dataclass(value) else repr(value)


def _text_of(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation
    return str(getattr(annotation, "__forward_arg__", None) or annotation.__name__)


def _code(text: str) -> Iterator[str]:
    yield f"```python\n{text}\n```\n"


def _wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_on_hyphens=False,
        break_long_words=False,
    )
