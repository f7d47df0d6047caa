"""The vocabulary of all packages: errors, metadata, selectors, options, tables, releases.

    vocabulary     types and constants: documents, group versions, users, attributes of requests
    brand          the two words that a deployment may choose, and the names made from them
    errors         the errors that clients receive as a Status
    field_errors   errors about one field of an object
    object_meta, names, owners, timestamps, conditions, quantity
                   the parts of objects that many kinds share
    selectors      label and field selectors
    options        the options of verbs
    table          the columns of Tables
    expiring_cache
                   responses of other servers that remain valid for some time
    text_caches    caches of results for texts, which can be emptied when memory is short
    releases       the APIs, feature gates and storage versions of each release of Kubernetes

No module does I/O or reads a clock; callers pass the time.
"""
