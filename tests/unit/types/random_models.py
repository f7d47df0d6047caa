"""Random models as data, and the classes of four kinds that are made of them."""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NotRequired, TypeAlias, TypedDict, get_origin

import msgspec
import pydantic
from hypothesis import strategies as st

from apiserver.types import Default, Ge, Le, MaxLen, MinLen

# A value that no field has: the field is required.
REQUIRED: Final = object()
Values: TypeAlias = st.SearchStrategy[Any]


@dataclasses.dataclass
class Scalar:
    """A type without parts. values: its values as JSON; Python's defaults are the same."""

    hint: Any
    values: Values


@dataclasses.dataclass
class Container:
    """A list or a dict of another type."""

    is_dict: bool
    item: RandomType


@dataclasses.dataclass
class OptionalOf:
    item: RandomType


@dataclasses.dataclass
class UnionOf:
    """Objects with the tags `m0`, `m1` and so on."""

    members: list[RandomModel]


@dataclasses.dataclass
class RandomField:
    """A field. default: as JSON; of a model without required fields, `{}` means the model itself."""

    name: str
    type: RandomType
    default: Any = REQUIRED


@dataclasses.dataclass
class RandomModel:
    fields: list[RandomField]
    tag: str = ""

    @property
    def has_defaults(self) -> bool:
        return not self.tag and all(field.default is not REQUIRED for field in self.fields)


RandomType: TypeAlias = Scalar | Container | OptionalOf | UnionOf | RandomModel

# ---- drawing models

_TEXTS: Final = st.text("ab1-", max_size=6)
_TIMES: Final = st.datetimes(datetime.datetime(1970, 1, 1), datetime.datetime(2100, 1, 1)).map(  # noqa: DTZ001
    lambda time: time.replace(microsecond=0).isoformat() + "Z"
)
_NUMBERS: Final = st.integers(-(2**53), 2**53)


@st.composite
def bounded_integers(draw: st.DrawFn) -> Scalar:
    least, most = sorted(draw(st.tuples(st.integers(-99, 99), st.integers(-99, 99))))
    return Scalar(Annotated[int, Ge(least), Le(most)], st.integers(least, most))


@st.composite
def bounded_texts(draw: st.DrawFn) -> Scalar:
    least, more = draw(st.tuples(st.integers(0, 3), st.integers(0, 5)))
    values = st.text("ab1-", min_size=least, max_size=least + more)
    return Scalar(Annotated[str, MinLen(least), MaxLen(least + more)], values)


@st.composite
def literals(draw: st.DrawFn) -> Scalar:
    drawn = st.sampled_from([_TEXTS, st.integers(0, 9)])
    values = draw(drawn.flatmap(lambda each: st.lists(each, min_size=1, max_size=3, unique=True)))
    return Scalar(Literal[tuple(values)], st.sampled_from(values))


SCALARS: Final = st.one_of(
    st.sampled_from(
        [
            Scalar(bool, st.booleans()),
            Scalar(int, _NUMBERS),
            Scalar(float, st.floats(-1e6, 1e6)),
            Scalar(str, _TEXTS),
            Scalar(int | str, _NUMBERS | _TEXTS),
        ]
    ),
    bounded_integers(),
    bounded_texts(),
    literals(),
)
# Their defaults in Python are no JSON.
TEXT_FORMATS: Final = st.sampled_from(
    [
        Scalar(datetime.datetime, _TIMES),
        Scalar(datetime.date, st.dates().map(str)),
        Scalar(datetime.timedelta, st.integers(0, 59).map("PT{}S".format)),
        Scalar(uuid.UUID, st.uuids().map(str)),
    ]
)
NAMES: Final = st.lists(st.sampled_from("abcdefg"), max_size=4, unique=True)


@cache
def types(levels: int) -> st.SearchStrategy[RandomType]:
    """Types that contain each other as deep as this."""
    if not levels:
        return SCALARS | TEXT_FORMATS
    inner = st.deferred(lambda: types(levels - 1))
    return st.one_of(
        SCALARS,
        TEXT_FORMATS,
        st.builds(Container, st.booleans(), inner),
        st.builds(OptionalOf, inner.filter(can_be_null)),
        models(levels - 1),
        st.lists(models(levels - 1), min_size=2, max_size=3).map(_union),
    )


def can_be_null(of: RandomType) -> bool:
    """Whether the type or None is another type that a schema has; enumerations cannot have null."""
    return not isinstance(of, OptionalOf) and get_origin(getattr(of, "hint", None)) is not Literal


def _union(members: list[RandomModel]) -> UnionOf:
    """A union of models whose fields have different names."""
    return UnionOf(
        [
            RandomModel(
                [dataclasses.replace(field, name=f"{field.name}{n}") for field in model.fields], tag=f"m{n}"
            )
            for n, model in enumerate(members)
        ]
    )


@st.composite
def models(draw: st.DrawFn, levels: int) -> RandomModel:
    return RandomModel([draw(fields(name, levels)) for name in draw(NAMES)])


@st.composite
def fields(draw: st.DrawFn, name: str, levels: int) -> RandomField:
    field_type = draw(types(levels))
    return RandomField(name, field_type, draw(defaults(field_type)))


def defaults(of: RandomType) -> Values:
    match of:
        case Scalar() if of.hint in (datetime.datetime, datetime.date, datetime.timedelta, uuid.UUID):
            return st.just(REQUIRED)
        case Scalar():
            return st.just(REQUIRED) | of.values
        case Container(is_dict=is_dict):
            return st.sampled_from([REQUIRED, {} if is_dict else []])
        case OptionalOf():
            return st.sampled_from([REQUIRED, None])
        case RandomModel(has_defaults=True):
            return st.sampled_from([REQUIRED, {}])
    return st.just(REQUIRED)


# ---- drawing objects


def values(of: RandomType) -> Values:
    """Values of a type as JSON."""
    match of:
        case Scalar(values=found):
            return found
        case Container(is_dict=True, item=item):
            return st.dictionaries(st.sampled_from("xyz"), values(item), max_size=2)
        case Container(item=item):
            return st.lists(values(item), max_size=2)
        case OptionalOf(item=item):
            return st.none() | values(item)
        case UnionOf(members=members):
            return st.one_of([values(each) for each in members])
        case RandomModel():
            required = {f.name: values(f.type) for f in of.fields if f.default is REQUIRED}
            optional = {f.name: values(f.type) for f in of.fields if f.default is not REQUIRED}
            tag = {"kind": st.just(of.tag)} if of.tag else {}
            return st.fixed_dictionaries(required | tag, optional=optional)


# ---- making classes

# Makes a class of a model: its fields by name, with their types and defaults, and its tag.
MakeClass: TypeAlias = Callable[[list[tuple[str, Any, Any]], str], type]


def hint_of(of: RandomType, make: MakeClass) -> Any:
    """The type hint of a type. make: makes classes of one kind."""
    match of:
        case Scalar(hint=hint):
            return hint
        case Container(is_dict=is_dict, item=item):
            inner: Any = hint_of(item, make)
            return GenericAlias(dict, (str, inner)) if is_dict else GenericAlias(list, (inner,))
        case OptionalOf(item=item):
            return hint_of(item, make) | None
        case UnionOf(members=members):
            first, *rest = (hint_of(each, make) for each in members)
            for each in rest:
                first |= each
            return first
        case RandomModel():
            made = []
            for field in of.fields:
                hint = hint_of(field.type, make)
                is_model = isinstance(field.type, RandomModel) and field.default is not REQUIRED
                made.append((field.name, hint, hint if is_model else field.default))
            return make(made, of.tag)


def dataclass_of(given: list[tuple[str, Any, Any]], tag: str) -> type:
    tagged: list[Any] = [("kind", Literal[tag])] if tag else []
    made = [(name, hint, dataclasses.field(**_factory(default))) for name, hint, default in given]
    return dataclasses.make_dataclass("Model", [*tagged, *made], kw_only=True)


def pydantic_of(given: list[tuple[str, Any, Any]], tag: str) -> type:
    tagged: dict[str, Any] = {"kind": (Literal[tag], ...)} if tag else {}
    made: dict[str, Any] = {
        name: (hint, pydantic.Field(**_factory(default))) for name, hint, default in given
    }
    made_class: type = pydantic.create_model("Model", **tagged, **made)
    return made_class


def struct_of(given: list[tuple[str, Any, Any]], tag: str) -> type:
    made = [(name, hint, msgspec.field(**_factory(default))) for name, hint, default in given]
    tagged: dict[str, Any] = {"tag": tag, "tag_field": "kind"} if tag else {}
    # Keyword-only, one by one: otherwise fields with a default come last.
    return msgspec.defstruct("Model", made, kw_only=True, **tagged)


def typed_dict_of(given: list[tuple[str, Any, Any]], tag: str) -> type:
    made: dict[str, Any] = {"kind": Literal[tag]} if tag else {}
    for name, hint, default in given:
        if default is REQUIRED:
            made[name] = hint
        elif default is None:
            made[name] = NotRequired[hint]
        else:
            made[name] = Annotated[hint, Default({} if isinstance(default, type) else default)]
    return TypedDict("Model", made)  # type: ignore[operator,no-any-return]


def _factory(default: Any) -> dict[str, Any]:
    """The arguments of a field: a factory for what can change."""
    if default is REQUIRED:
        return {}
    if isinstance(default, type):
        return {"default_factory": default}
    if isinstance(default, dict | list):
        return {"default_factory": type(default)}
    return {"default": default}


KINDS: Final[Mapping[str, MakeClass]] = {
    "dataclass": dataclass_of,
    "pydantic": pydantic_of,
    "msgspec": struct_of,
    "TypedDict": typed_dict_of,
}
