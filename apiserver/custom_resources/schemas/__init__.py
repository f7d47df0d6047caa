"""Schemas of custom resources: pruning, defaulting and validation.

    custom_schema        `CustomSchema`: the schema of one version, each part compiled when it is first used
    prune_and_default    removes unknown fields, sets defaults and coerces metadata: one pass of closures
    default_sizes        how much the defaults may add
    validation           validates values: a fast test and, for invalid ones, a slow search for all errors
    value_rules          the rules of single values; `findings`: what the errors say; `formats`, `numbers`
    correlation          the old value that a new one replaces, as an update may keep invalid values
    (ratcheting)
    list_types           duplicates in `set` and `map` lists
    embedded_resources   types and metadata of the resources that others embed
    structural_builder   the structural schema that the rest of the server uses, for example apply
    json_schema          the schemas within a schema; `visits`: checks the values of some of them
    paths                paths of values, as errors name them
    schema_paths         paths to fields in a schema, as rules and selectable fields have them

Nothing of a definition's schema is compiled before an object needs it, so hundreds of definitions cost little
more than their texts.

Rules in CEL are not part of this (see `rules`). The validation of definitions has accepted the schemas
before: they are not checked here.
"""
