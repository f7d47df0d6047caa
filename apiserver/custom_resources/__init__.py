"""Custom resources: CustomResourceDefinitions as objects, and everything that they define.

    definitions  CustomResourceDefinitions as objects: their fields, defaults, validation and status
    schemas      their schemas: pruning, defaults and validation of custom resources
    rules        the rules in CEL in their schemas (`x-kubernetes-validations`), with their budgets
    serving      the served versions: strategies, conversion, columns; the controllers that keep them served

A subpackage imports only those after it in the order `serving`, `definitions`, `rules`, `schemas`;
import-linter checks it. All but parts of `serving` are pure. `catalogue.apiextensions` declares the type
CustomResourceDefinition like all others, with the functions in `definitions`. `apiserver.schema` has the
parts of schemas that built-in types need, too.

What it guarantees:

- *Like any other resource.* A definition becomes one `ServedResource` for each version, in a table that is
  replaced as a whole; requests, admission, apply and watches treat it like a built-in type.
- *Served milliseconds after it is created*, on each server on the store. Watches of removed or changed
  resources end, and their clients begin again.
- *Nothing is compiled before it is needed*, and nothing of an unchanged definition is parsed twice: thousands
  of definitions may be stored, and most are never used.
- *No object outlives its definition.* That the definition is not being deleted is a condition of each
  creation.

Why this shape: reading must stay as cheap as for built-in types, so an object that conforms to its schema is
sent as it is stored, and only one that does not, or is converted, is decoded
(`serving.custom_resource_codec`).
"""
