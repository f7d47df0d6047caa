"""Definitions of custom resources from Python classes.

    @crd("shop.example.com/v1", short_names=["ord"])
    @dataclass
    class Order:
        spec: OrderSpec

    definition(Order)  # the CustomResourceDefinition

Dataclasses, pydantic models, msgspec structs and TypedDicts that say the same make the same definition, byte
for byte. `decorators` has what users write on classes and `markers` what they write in `Annotated`. `models`
reads the classes, `type_hints` and `constraints` the types of their fields. `schema_builder` makes the
schemas, with a module for each special part: `scalars`, `unions`, `cel_expressions`, `recursion`,
`list_types`, `default_values` and `kubernetes_types`. `definitions` makes the documents around the schemas.

The package imports only the standard library and annotated_types: users import it in programs that do not
run a server. Only embedded Kubernetes types need the definitions in `apiserver.schema`.

Left out, because a schema has no Python code: the validators of pydantic, and predicates.
"""

from annotated_types import Ge, Gt, Interval, Le, Len, Lt, MaxLen, MinLen, MultipleOf

from apiserver.types.columns import Column
from apiserver.types.decorators import Scale, crd, rule
from apiserver.types.definitions import definition, definitions
from apiserver.types.errors import DefinitionError, Unrepresentable
from apiserver.types.kubernetes_types import (
    Affinity,
    Condition,
    Container,
    EnvVar,
    LabelSelector,
    LocalObjectReference,
    ObjectReference,
    PersistentVolumeClaimSpec,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    SecretKeySelector,
    ServiceSpec,
    Toleration,
    Volume,
    VolumeMount,
)
from apiserver.types.markers import (
    Default,
    Depth,
    Doc,
    EmbeddedObject,
    Format,
    Immutable,
    IntOrString,
    Keywords,
    Kubernetes,
    Name,
    Nullable,
    Pattern,
    Preserve,
    Quantity,
    Rule,
    Selectable,
    atomic,
    map_by,
    set_list,
)

__all__ = [
    "Affinity",
    "Column",
    "Condition",
    "Container",
    "Default",
    "DefinitionError",
    "Depth",
    "Doc",
    "EmbeddedObject",
    "EnvVar",
    "Format",
    "Ge",
    "Gt",
    "Immutable",
    "IntOrString",
    "Interval",
    "Keywords",
    "Kubernetes",
    "LabelSelector",
    "Le",
    "Len",
    "LocalObjectReference",
    "Lt",
    "MaxLen",
    "MinLen",
    "MultipleOf",
    "Name",
    "Nullable",
    "ObjectReference",
    "Pattern",
    "PersistentVolumeClaimSpec",
    "PodSpec",
    "PodTemplateSpec",
    "Preserve",
    "Quantity",
    "ResourceRequirements",
    "Rule",
    "Scale",
    "SecretKeySelector",
    "Selectable",
    "ServiceSpec",
    "Toleration",
    "Unrepresentable",
    "Volume",
    "VolumeMount",
    "atomic",
    "crd",
    "definition",
    "definitions",
    "map_by",
    "rule",
    "set_list",
]
