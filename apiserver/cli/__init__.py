"""The command line: flags and configuration files become one frozen `Config`, and the subcommands run."""
