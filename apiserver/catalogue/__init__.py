"""The built-in types as data: names, scope, columns, strategies. One file to a group.

Fields, their types and their descriptions come from Kubernetes' own definitions (`schema.builtin`), numbers
on the wire and what empty means from its Go types (`schema.go_fields`); what those lack is here. Defaults
and checks are in `rules`. `builtins` makes served resources of it all: where a type has several versions,
its objects are kept in one of them and converted at the registry's border.
"""
