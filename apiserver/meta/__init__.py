"""The words that all packages share: errors, groups and versions, metadata, selectors, options, tables.

    vocabulary     types and constants: documents, group versions, users, what requests are about
    brand          the two words that a deployment may choose, and the names made from them
    errors         what a request is answered when it fails, as a Status
    field_errors   what is wrong with one field of an object
    object_meta, names, owners, timestamps, conditions, quantity
                   the parts of objects that many kinds have
    selectors      label and field selectors
    options        the options of verbs
    table          the columns of Tables
    expiring_answers
                   responses of other servers that remain valid for some time
    text_caches    caches of results for texts, which can be emptied when memory is short

Nothing here does I/O or reads a clock; callers pass the time.
"""
