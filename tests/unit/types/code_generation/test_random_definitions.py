"""Random definitions become classes that make them again, in modules that `ruff format` does not change."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apiserver.types.code_generation.generation import EMITTERS, definitions_source
from tests.unit.types.code_generation.modules import definition_of, definition_with
from tests.unit.types.code_generation.normalised_definitions import normalised

Document = dict[str, Any]

NAMES: Final = st.sampled_from(
    [
        *("name", "items", "policies", "status", "data", "spec", "class", "import", "x-y", "x_y", "2fa"),
        *("$ref", "list", "dict", "schema", "model_dump", "Any", "Literal", "field", "rule", "Widget", "é"),
        *("__x", "aVeryLongNameOfAFieldThatGoesOnAndOn"),
    ]
)
WORDS: Final = st.sampled_from(
    [*"abc", "'quoted'", '"quoted"', "\\d+", "{x}", "#", "漢字", "é", "word" * 25, "plain words"]
)
BLANKS: Final = st.sampled_from([" ", " ", " ", "\n", "\n\n", "\n  ", "\t", "  "])
TEXT: Final = st.lists(st.tuples(WORDS, BLANKS), min_size=1, max_size=25).map(
    lambda parts: "".join(part for pair in parts for part in pair)
)
TEXTS: Final = TEXT | TEXT.map(str.strip)
RULE: Final = st.fixed_dictionaries(
    {"rule": TEXTS},
    optional={"message": TEXTS, "reason": st.just("FieldValueForbidden"), "optionalOldSelf": st.just(True)},
)
ANNOTATIONS: Final = st.fixed_dictionaries(
    {},
    optional={
        "description": TEXTS,
        "nullable": st.just(True),
        "x-kubernetes-validations": st.lists(RULE, min_size=1, max_size=2),
        "title": st.just("A title"),
    },
)


def typed(kind: str, **keywords: st.SearchStrategy[Any]) -> st.SearchStrategy[Document]:
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=keywords)


INTEGERS: Final = st.integers(-(2**63), 2**63 - 1)
SCALARS: Final = st.one_of(
    typed("string", maxLength=st.integers(1, 300), pattern=TEXTS, default=TEXTS),
    typed("string", format=st.sampled_from(["uri", "byte", "date", "date-time"])),
    typed("string", enum=st.lists(TEXTS, min_size=1, max_size=3, unique=True)),
    typed("integer", minimum=INTEGERS, exclusiveMinimum=st.booleans(), default=INTEGERS),
    typed("integer", format=st.sampled_from(["int32", "int64"]), enum=st.just([1, 2])),
    typed("number", maximum=st.floats(allow_nan=False, allow_infinity=False), default=st.just(1e30)),
    typed("number", enum=st.just([0.5, 1])),
    typed("boolean", default=st.booleans()),
    st.just({"x-kubernetes-int-or-string": True}),
    st.just({"x-kubernetes-preserve-unknown-fields": True}),
    st.just({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
)


def with_fields(schemas: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    """Objects with fields, which are optional, required or have a default."""
    fields = st.dictionaries(NAMES, schemas, min_size=1, max_size=4)
    return fields.flatmap(
        lambda properties: st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.just(properties)},
            optional={
                "required": st.lists(st.sampled_from(sorted(properties)), unique=True),
                "minProperties": st.integers(0, 1),
                "oneOf": st.just([{"required": [name]} for name in properties]),
                "default": st.just({}),
                "x-kubernetes-map-type": st.sampled_from(["atomic", "granular"]),
                "x-kubernetes-preserve-unknown-fields": st.just(True),
            },
        )
    )


def annotated(schemas: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    return st.builds(with_annotations, schemas, ANNOTATIONS)


def with_annotations(schema: Document, annotations: Document) -> Document:
    """Without rules for values without a type, which the server refuses."""
    inner = schema
    while inner.get("type") == "array":
        inner = inner["items"]
    if not inner.keys() & {"type", "x-kubernetes-int-or-string"}:
        annotations = {key: value for key, value in annotations.items() if key != "x-kubernetes-validations"}
    return {**annotations, **schema}


SCHEMAS: Final = st.recursive(
    annotated(SCALARS),
    lambda inner: annotated(
        with_fields(inner)
        | st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"maxItems": st.integers(1, 9), "default": st.just([])},
        )
        | st.fixed_dictionaries(
            {"type": st.just("object"), "additionalProperties": inner}, optional={"default": st.just({})}
        )
    ),
    max_leaves=12,
)


# Without shrinking: an example takes 0.3 s, and shrinking one takes minutes.
@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(with_fields(SCHEMAS), st.sampled_from(sorted(EMITTERS)), st.none() | TEXTS)
def test_round_trip(schema: Document, kind: str, description: str | None) -> None:
    schema.pop("default", None)
    schema["properties"].pop("metadata", None)
    if description is not None:
        schema["description"] = description
    definition = definition_with(schema, "Widget")
    source = definitions_source([definition], kind)
    assert normalised(definition_of(source)) == normalised(definition)
    formatter = [sys.executable, "-m", "ruff", "format", "--isolated", "-"]
    done = subprocess.run(formatter, input=source, capture_output=True, text=True, check=True)
    assert done.stdout == source
