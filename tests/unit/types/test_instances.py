"""Objects as instances of classes of four kinds, and the changes of instances in objects."""

from __future__ import annotations

import copy
import datetime
import enum
import ipaddress
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

import msgspec
import pydantic
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apiserver.types import Doc, crd
from apiserver.types.errors import InvalidObject
from apiserver.types.instances import InstanceDecoder, InstanceEncoder, with_changes
from tests.unit.types.checks import field_schema
from tests.unit.types.random_models import KINDS, RandomModel, hint_of, models, values
from tests.unit.types.shop import dataclass_shop, msgspec_shop, pydantic_shop, typed_dict_shop

SHOPS: Final[dict[str, Any]] = {
    "dataclass": dataclass_shop,
    "pydantic": pydantic_shop,
    "msgspec": msgspec_shop,
    "TypedDict": typed_dict_shop,
}
WITH_INSTANCES: Final = {name: shop for name, shop in SHOPS.items() if name != "TypedDict"}
ORDER: Final[dict[str, Any]] = {
    "apiVersion": "shop.example.com/v1",
    "kind": "Order",
    "metadata": {"name": "first", "labels": {"team": "a"}},
    "spec": {
        "owner": "jane",
        "items": [{"sku": "pear", "price": "500m"}, {"sku": "apple", "price": 2, "weight": 7}],
        "target": {"kind": "locker", "code": 3},
        "days": {"first": "2026-11-29"},
        "ipFamily": "IPv6",
        "extra": {"any": [1, None]},
        "unknown": [1],
    },
}


def without(document: Any, *path: Any) -> Any:
    document = copy.deepcopy(document)
    inside = document
    for each in path[:-1]:
        inside = inside[each]
    del inside[path[-1]]
    return document


def with_value(value: Any, *path: Any) -> Any:
    document = copy.deepcopy(ORDER)
    inside = document
    for each in path[:-1]:
        inside = inside[each]
    inside[path[-1]] = value
    return document


def changed(cls: Any, document: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the document after a function has changed its instance, or has returned another one."""
    instance, encoder = InstanceDecoder().decode(cls, copy.deepcopy(document)), InstanceEncoder()
    before = encoder.encode(instance)
    returned = change(instance)
    return with_changes(document, before, encoder.encode(instance if returned is None else returned))


@pytest.mark.parametrize("shop", WITH_INSTANCES.values(), ids=WITH_INSTANCES)
def test_an_instance_has_the_types_and_the_defaults_of_its_class(shop: Any) -> None:
    spec = InstanceDecoder().decode(shop.Order, ORDER).spec
    assert isinstance(spec, shop.Spec)
    assert [each.price for each in spec.items] == [Decimal("0.5"), Decimal(2)]
    assert isinstance(spec.target, shop.Locker)
    assert spec.target.code == 3
    assert spec.days.first == datetime.date(2026, 11, 29)
    assert (spec.least, spec.most, spec.state, spec.ip_family) == (1, None, shop.State.NEW, "IPv6")


@pytest.mark.parametrize("shop", SHOPS.values(), ids=SHOPS)
def test_an_instance_that_is_not_changed_changes_nothing(shop: Any) -> None:
    if shop is typed_dict_shop:
        assert InstanceDecoder().decode(shop.Order, ORDER) is ORDER
    else:
        assert changed(shop.Order, ORDER, lambda _: None) == ORDER


@pytest.mark.parametrize("shop", WITH_INSTANCES.values(), ids=WITH_INSTANCES)
def test_fields_that_the_class_does_not_have_are_kept(shop: Any) -> None:
    def change(order: Any) -> None:
        order.spec.least = 5
        order.spec.items[1].price = Decimal(3)
        order.spec.days.last = datetime.date(2026, 12, 1)
        order.status = shop.Status(state="New")

    spec = ORDER["spec"]
    assert changed(shop.Order, ORDER, change) == {
        **ORDER,
        "spec": {
            **spec,
            "least": 5,
            "items": [spec["items"][0], {"sku": "apple", "price": "3", "weight": 7}],
            "days": {"first": "2026-11-29", "last": "2026-12-01"},
        },
        "status": {"state": "New", "replicas": 0},
    }


# The JSON of a document, and what is wrong with it for all four kinds.
WRONG: Final[dict[str, tuple[Any, str]]] = {
    "no object": ([], "the object must be an object, not a list"),
    "a missing field": (without(ORDER, "spec", "owner"), "spec.owner is required"),
    "a text for a number": (with_value("7", "spec", "least"), "spec.least must be an integer, not '7'"),
    "a boolean for a number": (with_value(True, "spec", "least"), "spec.least must be an integer, not True"),
    "half a number": (with_value(1.5, "spec", "least"), "spec.least must be an integer, not a number"),
    "null": (with_value(None, "spec", "owner"), "spec.owner must not be null"),
    "an item": (with_value({}, "spec", "items", 1), "spec.items[1].sku is required"),
    "a price": (with_value("2 EUR", "spec", "items", 1, "price"), "spec.items[1].price must be a quantity"),
    "an object for a list": (with_value({}, "spec", "items"), "spec.items must be a list, not an object"),
    "a map": (
        with_value({"a": 1}, "spec", "items", 0, "labels"),
        "spec.items[0].labels[a] must be a string, not 1",
    ),
    "an enumeration": (with_value("Lost", "spec", "state"), "spec.state must be one of 'New', 'Sent'"),
    "a literal": (with_value("IPv5", "spec", "ipFamily"), "spec.ipFamily must be one of 'IPv4', 'IPv6'"),
    "a date": (with_value("soon", "spec", "days", "first"), "spec.days.first must be a date, not 'soon'"),
    "a union": (
        with_value({"kind": "locker", "code": "x"}, "spec", "target"),
        "spec.target.code must be an integer, not 'x'",
    ),
}


@pytest.mark.parametrize("shop", SHOPS.values(), ids=SHOPS)
@pytest.mark.parametrize("case", WRONG)
def test_an_object_that_does_not_fit_its_class_is_an_error_with_the_field(shop: Any, case: str) -> None:
    document, problem = WRONG[case]
    with pytest.raises(InvalidObject) as raised:
        InstanceDecoder().decode(shop.Order, document)
    assert str(raised.value).startswith(problem)


@dataclass(frozen=True)
class Pair:
    left: int
    right: int = 0


@dataclass(frozen=True)
class Frozen:
    pair: Pair
    pairs: tuple[Pair, ...] = ()


def test_a_function_can_return_another_instance() -> None:
    document = {"metadata": {"name": "a"}, "pair": {"left": 1, "color": "red"}}

    def change(frozen: Frozen) -> Frozen:
        return replace(frozen, pair=replace(frozen.pair, right=3))

    expected = {"metadata": {"name": "a"}, "pair": {"left": 1, "right": 3, "color": "red"}}
    assert changed(Frozen, document, change) == expected


@dataclass
class Container:
    name: str
    image: str


@dataclass
class Step:
    text: str = ""


@dataclass
class PodSpec:
    containers: list[Container] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def spec_of(containers: str, steps: str = "") -> dict[str, Any]:
    """Returns a spec in which each item has a field that its class does not have, and that differs."""
    return {
        "containers": [{"name": each, "image": "i", "port": each} for each in containers],
        "steps": [{"text": each, "kept": each} for each in steps],
    }


def _insert_first(spec: PodSpec) -> None:
    spec.containers.insert(0, Container("s", "i"))
    spec.containers[1].image = "j"


def _remove_and_change(spec: PodSpec) -> None:
    del spec.containers[0]
    spec.containers[0].image = "j"


def _reverse(spec: PodSpec) -> None:
    spec.containers.reverse()
    spec.steps.reverse()


def _change_by_place(spec: PodSpec) -> None:
    spec.steps[0].text = "x"


def _change_and_add(spec: PodSpec) -> None:
    spec.steps[0].text = "x"
    spec.steps.append(Step("new"))


LISTS: Final[dict[str, tuple[Callable[[PodSpec], None], dict[str, Any]]]] = {
    "a new first item, and one that changes": (
        _insert_first,
        {
            **spec_of("ab", "xy"),
            "containers": [
                {"name": "s", "image": "i"},
                {"name": "a", "image": "j", "port": "a"},
                {"name": "b", "image": "i", "port": "b"},
            ],
        },
    ),
    "one item less, and one that changes": (
        _remove_and_change,
        {**spec_of("ab", "xy"), "containers": [{"name": "b", "image": "j", "port": "b"}]},
    ),
    "another order": (_reverse, spec_of("ba", "yx")),
    "an item without a name": (
        _change_by_place,
        {**spec_of("ab", "xy"), "steps": [{"text": "x", "kept": "x"}, {"text": "y", "kept": "y"}]},
    ),
    "an item without a name, and one more": (
        _change_and_add,
        {**spec_of("ab", "zy"), "steps": [{"text": "x"}, {"text": "y", "kept": "y"}, {"text": "new"}]},
    ),
}


@pytest.mark.parametrize("case", LISTS)
def test_items_of_lists_keep_what_their_class_does_not_have(case: str) -> None:
    change, expected = LISTS[case]
    steps = "zy" if case == "an item without a name, and one more" else "xy"
    assert changed(PodSpec, spec_of("ab", steps), change) == expected


@dataclass
class Scalars:
    raw: bytes = b""
    at: datetime.datetime | None = None
    within: datetime.timedelta | None = None
    uid: uuid.UUID | None = None
    address: ipaddress.IPv4Address | None = None
    rate: float = 0.0
    size: Decimal = Decimal(0)


AT: Final = datetime.datetime(2026, 11, 29, 12, tzinfo=datetime.UTC)
SCALARS: Final[dict[str, tuple[str, Any, Any]]] = {
    "bytes": ("raw", "aGk=", b"hi"),
    "a time": ("at", "2026-11-29T12:00:00Z", AT),
    "a duration of ISO 8601": ("within", "P1DT1H30M", datetime.timedelta(days=1, hours=1, minutes=30)),
    "a duration of Go": ("within", "1h30m", datetime.timedelta(hours=1, minutes=30)),
    "a UUID": ("uid", "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
    "an address": ("address", "10.0.0.1", ipaddress.IPv4Address("10.0.0.1")),
    "a whole number": ("rate", 3, 3.0),
    "a quantity": ("size", "1Ki", Decimal(1024)),
    "an exponent": ("size", "1e3", Decimal(1000)),
    "a small quantity": ("size", "5m", Decimal("0.005")),
}


@pytest.mark.parametrize("case", SCALARS)
def test_texts_and_numbers_have_the_types_of_python(case: str) -> None:
    name, given_json, expected = SCALARS[case]
    assert getattr(InstanceDecoder().decode(Scalars, {name: given_json}), name) == expected
    assert changed(Scalars, {name: given_json}, lambda _: None) == {name: given_json}


class Kept(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    size: int = pydantic.Field(1, validation_alias="Size", le=3)

    @pydantic.model_validator(mode="after")
    def check(self) -> Kept:
        if self.size == 2:
            raise ValueError("two is no size")
        return self


def test_a_pydantic_model_keeps_other_fields() -> None:
    kept = InstanceDecoder().decode(Kept, {"Size": 3, "color": "red"})
    assert (kept.size, kept.color) == (3, "red")
    assert InstanceEncoder().encode(kept) == {"Size": 3, "color": "red"}


@pytest.mark.parametrize(
    ("size", "problem"),
    [
        (4, "Size is invalid: Input should be less than or equal to 3"),
        (2, "the object is invalid: Value error"),
    ],
)
def test_what_pydantic_checks_is_an_error_with_the_field(size: int, problem: str) -> None:
    with pytest.raises(InvalidObject, match=problem):
        InstanceDecoder().decode(Kept, {"Size": size})


class Unset(msgspec.Struct):
    one: int | msgspec.UnsetType | None = msgspec.UNSET
    two: int | None = None
    three: int | None = 3


def test_null_and_absent_fields_differ_where_the_class_says_so() -> None:
    decode, encode = InstanceDecoder().decode, InstanceEncoder().encode
    assert decode(Unset, {}) == Unset(one=msgspec.UNSET, two=None, three=3)
    assert decode(Unset, {"one": None, "three": None}) == Unset(one=None, two=None, three=None)
    assert encode(Unset()) == {"three": 3}
    assert encode(Unset(one=None, three=None)) == {"one": None, "three": None}


WIDGET: Final = crd("example.com/v1", kind="Widget")


@pytest.mark.parametrize("kind", KINDS)
def test_all_objects_of_random_classes_have_instances_that_change_nothing(kind: str) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data(), models(3))
    def check(data: st.DataObject, model: RandomModel) -> None:
        cls = WIDGET(hint_of(model, KINDS[kind]))
        document = data.draw(values(model))
        if kind == "TypedDict":
            assert InstanceDecoder().decode(cls, document) is document
        else:
            assert changed(cls, document, lambda _: None) == document

    check()


def test_long_lists_in_which_every_item_changes_take_no_longer_than_their_length_explains() -> None:
    before = [{"sku": str(number), "count": 1} for number in range(5_000)]
    after = [{**each, "count": 2} for each in before]
    document = [{**each, "note": "kept"} for each in before]
    began = time.process_time()
    assert with_changes(document, before, after) == [{**each, "count": 2} for each in document]
    # 0.1 s; if each item is compared with all others, minutes.
    assert time.process_time() - began < 5


@dataclass
class Disk:
    size: int
    kind: Literal["disk"] = "disk"


@dataclass
class Net:
    kind: Literal["net"] = "net"


class Kind(enum.Enum):
    NET = "net"


@dataclass
class OtherNet:
    kind: Literal[Kind.NET] = Kind.NET


@dataclass
class OtherDevice:
    of: Disk | OtherNet


@dataclass
class Device:
    of: Annotated[Disk, Doc("A disk.")] | Annotated[Net, Doc("A network.")]


@pytest.mark.parametrize("device", [Device(Net()), OtherDevice(OtherNet())], ids=["text", "enumeration"])
def test_an_object_of_a_union_needs_its_tag_though_that_has_a_default(device: Any) -> None:
    """As the schema says: with the default of one class, it would be an object of that."""
    decoder, cls = InstanceDecoder(), type(device)
    assert field_schema(cls)["properties"]["of"]["required"] == ["kind"]
    assert decoder.decode(cls, {"of": {"kind": "net"}}) == device
    with pytest.raises(InvalidObject, match=r"^of\.kind is required"):
        decoder.decode(cls, {"of": {"size": 3}})
