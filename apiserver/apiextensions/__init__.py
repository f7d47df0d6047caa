"""CustomResourceDefinitions as objects: what they say, their validation, and the rules in their schemas.

Everything here is pure. `catalogue.apiextensions` declares the type with it; `custom_resources` serves what
definitions define.

    definitions            reads a definition: its group, names, versions and finalizer
    definition_conditions  the conditions in its status
    definition_strategy    what is set when a definition is created, updated and deleted
    approval               the approval that groups of the community's domains need
    status                 the names and conditions it should have, given all others of its group
    validation             what is checked when it is written
    schema_rules           `x-kubernetes-validations`: compiled, and evaluated for objects
    schema_paths           paths to fields in a schema, as rules and selectable fields have them
"""
