"""Validation that many kinds share: checks of single fields, and access to documents.

Checks take the path of a value and the value, and return the errors. A checked document has passed its
schema: types are right, fields that Go shows when they are empty are present (`schema.compile`), others may
be absent. Paths, reasons and texts are Kubernetes'. All functions are pure.

    documents        reads values and lists in documents
    defaults         sets fields that are absent
    checks           checks single values: names, numbers, ports, addresses, quantities, changes
    domain_prefixed_paths
                     checks names with the domain of their owner
    conditions       checks conditions in a status
    label_selectors  checks and applies label selectors
    declarative      rules of fields as data, beside the checks that are code
    webhooks         checks the addresses of webhooks, and their versions of reviews
"""
