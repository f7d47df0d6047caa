"""The built-in types as data: names, scope, columns, rules. One small file to a group.

Fields, their types and their descriptions come from Kubernetes' own definitions (`schema.builtin`); what
those lack is here. `registry.builtins` makes served resources of it.
"""
