"""Writes Python classes for the types of definitions and of OpenAPI documents: `apiserver types generate`.

generation         the modules, from documents
schema_reader      structural schemas to a tree of types
openapi_reader     schemas that refer to each other by name
keyword_markers    the markers of keywords of schemas
definition_reader  CustomResourceDefinitions to root classes, with the arguments of `crd`
tree               the tree: models, fields, types, markers
names              names for Python: reserved words, names that are taken, singulars
expressions        Python expressions and their layout
fields             the lines of one field
imports            the imports of a module
emitter            the tree as source, without what depends on the kind of the classes
class_emitters     dataclasses, pydantic models and msgspec structs
typed_dicts        TypedDicts
"""
