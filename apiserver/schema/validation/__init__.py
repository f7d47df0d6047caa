"""What the validation of many kinds shares: checks of one field, and the reading and completing of documents.

Checks take the path of a value and the value, and return what is wrong. A document that is checked has passed
its schema: types are right, fields that Go shows when they are empty are there (`schema.compile`), others may
be absent. Paths, reasons and texts are Kubernetes'. Everything here is pure.

    documents        reads values and lists in documents
    defaults         sets fields that are absent
    checks           checks single values: names, numbers, ports, addresses, quantities, changes
    domain_prefixed_paths
                     checks names with the domain of their owner
    conditions       checks conditions in a status
    label_selectors  checks and applies label selectors
    declarative      rules of fields as data, beside the checks that are code
    webhooks         checks where a webhook is, and in which versions it can be asked
"""
