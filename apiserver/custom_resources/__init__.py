"""Serving what CustomResourceDefinitions define.

A definition comes through the watch cache, is given its conditions, and becomes served resources like any
other: one `ServedResource` for each version, in a table that is replaced. Nothing of a definition is parsed
twice while it stays as it is, and nothing is compiled before somebody needs it.

    definitions   what a definition says: its versions, names and conditions
    conditions    which conditions and names it should have, given all others of its group
    resources     from a definition to served resources
    schemas       the schema of a version, made into what is needed; and as OpenAPI tells it
    rules         the rules in a schema: checked, compiled, evaluated
    strategies    what is checked and set when its objects are written
    json_path     the paths that columns are read by
    columns       `additionalPrinterColumns`
    keeping       objects as they are stored and as they are shown: pruned, with defaults, in any version
    reviews       what is said to conversion webhooks, and what they may answer
    webhooks      asks them
    serving       follows the definitions; replaces the table; writes conditions
    deletion      removes the objects of a definition that is being deleted

The rules of Kubernetes' controllers (naming, establishing, API approval, finalizing) are here, and not among
`controllers`: in Kubernetes, too, the API server itself runs them. All servers on one store do; each write is
made on the version it was worked out from and changes nothing when it is repeated, so they agree.
"""
