"""Validates a CustomResourceDefinition when it is written.

Paths, reasons, texts and order of errors are Kubernetes'. A stored definition that violates a newer
requirement may be updated: the requirement does not apply then.

    custom_resource_definitions   a definition as a whole, its group and names; calls all others
    versions                      names, storage, deprecation, subresources, columns, selectable fields
    conversion                    conversion between versions, with or without a webhook
    structural_schemas            validates that a schema is structural
    openapi_schemas               validates the supported and consistent use of keywords
    schema_defaults               validates that defaults fit their schemas and rules
    schema_rules                  validates that rules compile, and cannot cost too much
    cost_bounds                   finds the bounds with which rules that cost too much would be accepted
    schema_tree                   the schemas within a schema, and their maximum number
    internal_types                parts of definitions as messages show them
"""
