"""Custom resources: serves what CustomResourceDefinitions define.

    definition_controller   informed of definitions, replaces the table and writes their conditions
    definition_finalizer    deletes the objects of a definition that is being deleted
    resources               makes the served resources of a definition
    schemas                 the schema of one version: read, compiled by `schema.custom`, published by OpenAPI
    strategies              what is set and validated when its objects are written
    columns                 `additionalPrinterColumns` as the columns of tables
    json_path               the JSONPaths of columns, compiled
    version_codec           converts objects between the stored form and each version
    conversion_reviews      ConversionReviews: requests to conversion webhooks, and their responses
    conversion_webhooks     sends them

What it guarantees:

- *Like any other resource.* A definition becomes one `ServedResource` for each version, in a table that is
  replaced as a whole; requests, admission, apply and watches do not know the difference.
- *Served milliseconds after it is created*, on each server on the store. Watches of what is served no more,
  or otherwise, end, and their clients begin again.
- *Nothing is compiled before somebody needs it*, and nothing of a definition is parsed twice while it stays
  as it is: thousands of definitions may be stored, and most are never used.
- *No object outlives its definition.* That the definition is not being deleted is a condition of each
  creation.

Why this shape: reading must stay as cheap as for built-in types, so an object that conforms to its schema is
sent as it is stored, and only one that does not, or is converted, is decoded (`version_codec`).

The accessors of definitions, their validation and the rules in their schemas are in `apiextensions`, which is
pure.

The controllers of Kubernetes' apiextensions-apiserver (naming, establishing, API approval, finalizing) are
here, and not among `controllers`: they decide what is served, and in Kubernetes, too, the API server itself
runs them. All servers on one store do; each write is made on the version that it was worked out from and
changes nothing when it is repeated, so they agree.
"""
