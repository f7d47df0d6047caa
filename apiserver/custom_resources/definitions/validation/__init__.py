"""What is checked when a CustomResourceDefinition is written.

Paths, reasons, texts and order of errors are Kubernetes'. What was stored before a check existed may stay:
less is required of an update if the stored definition did not meet the requirement either.

    custom_resource_definitions   a definition as a whole, its group and names; calls all others
    versions                      names, storage, deprecation, subresources, columns, selectable fields
    conversion                    between versions, with a webhook or without
    structural_schemas            that a schema is structural
    openapi_schemas               what is supported in it, and what fits together
    schema_defaults               that defaults fit their schemas, and their rules hold for them
    schema_rules                  that rules compile, and cannot cost too much
    schema_tree                   the schemas within a schema, and how many there may be
    internal_types                parts of definitions as messages show them
"""
