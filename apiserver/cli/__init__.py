"""The command line: flags and configuration files become one frozen `Config`, and the subcommands run.

config                what is configured, with the defaults
flags                 the table of flags, and the parser that is built from it
flag_values           parses single values
command_line          a command line and its configuration file to a checked `Config`
kube_apiserver_flags  flags of kube-apiserver that are accepted and have no effect
snapshot              `apiserver snapshot`
"""
