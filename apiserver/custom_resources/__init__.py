"""Custom resources: CustomResourceDefinitions as objects, and all that they define.

    definitions  CustomResourceDefinitions as objects: what they say, what is set and checked, their status
    schemas      their schemas: pruning, defaults and validation of custom resources
    rules        the rules in CEL in their schemas (`x-kubernetes-validations`), with their budgets
    serving      the served versions: strategies, conversion, columns; the controllers that keep them served

A room imports only those below it in this order: `serving`, `definitions`, `rules`, `schemas`; import-linter
checks it. All but parts of `serving` are pure. `catalogue.apiextensions` declares the type
CustomResourceDefinition as it declares all others, with what is in `definitions`. What built-in types need of
schemas, too, is in `apiserver.schema`.

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
sent as it is stored, and only one that does not, or is converted, is decoded
(`serving.custom_resource_codec`).
"""
