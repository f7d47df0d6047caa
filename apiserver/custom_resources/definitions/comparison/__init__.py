"""Compares two definitions: what an upgrade from one to the other breaks. Pure.

A change is breaking if objects that the old definition allows are refused or lose fields, or if requests of
clients fail or do something else. All others are notes.

    definition_changes   names, scope, conversion and versions; calls the others
    version_changes      what is beside the schema of a version: subresources, columns, selectable fields
    schema_changes       the fields of objects: which are kept, required, set by default, and merged how
    value_changes        the values of fields: types, bounds, enums, formats, patterns, alternatives
    rule_changes         validation rules
    changes              a change

Changes are decided by what schemas mean rather than by their texts: a `format: int32` is a bound, values of
an enum are tried with the validator of the server, and rules are compared without their whitespace. What
cannot be decided, as whether one pattern implies another, counts as breaking.
"""
