"""`apiserver crd`: commands about definitions of custom resources. They need no server.

command              the parser, with a module for each subcommand
check                what a server would say about definitions
diff                 what an upgrade from one definition to another breaks
generate             the definitions of Python classes, as manifests
class_sources        the definitions of Python classes
definition_sources   the definitions that arguments name
"""
