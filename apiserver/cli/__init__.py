"""The command line: flags and configuration files become one frozen `Config`, and the subcommands run.

config                       what is configured, by section of flags
commands                     the table of commands
help_page                    `apiserver --help`, and `help`
argument_parser              the parser that all commands share, its errors and hints
flags                        the sections of flags together, and the parser that is built from them
flag                         a flag: how it is written, parsed and explained
flag_sections                the flags and their defaults, a module for each section of `--help`
flag_values                  parses single values
flag_texts                   the values of flags as text, for `/flagz` and the log
command_line                 a command line and its configuration file to a checked `Config`
authentication_files         who authenticates tokens of others, by a file or by flags
tracing_configuration        the file of `--tracing-config-file`, parsed and checked
authorization_configuration  the file of `--authorization-config`, parsed and checked
encryption_configuration     the file of `--encryption-provider-config`, parsed and checked
history_policy               the file of --history-policy
kube_apiserver_flags         flags of kube-apiserver that have no effect, or are refused
audit                        `apiserver audit summary`
convert                      `apiserver convert`
crd                          `apiserver crd`: checks and compares definitions of custom resources
cel                          `apiserver cel eval`: evaluates expressions
extensions                   `apiserver extensions check`
types_generate               `apiserver types generate`
completion                   `apiserver completion`
version                      `apiserver version`
snapshot                     `apiserver snapshot`
storage                      `apiserver storage rewrite`, which is also `apiserver migrate`
rewriter                     has a server rewrite its objects and its history
storage_copy                 `apiserver storage copy`
deprecations                 `apiserver deprecations`
console                      `apiserver console`
top                          `apiserver top`
worker_answers               asks all workers of a server, for `top` and `deprecations`
history                      `apiserver history`: shows and undoes changes of an object
conformance                  `apiserver conformance`
printing                     prints the output of subcommands, with control characters escaped
printable_text               texts of others as terminals and logs can show them
subcommand                   runs a subcommand until it or its output ends, or a signal interrupts it
intermixed_parser            the parser of subcommands: options anywhere
auth_explain                 `apiserver auth explain`
named_resources              finds the resource that a name is of, for subcommands
manifest_files               the manifests in files and directories, for `convert` and `crd`
bounded_files                reads the files that a command line names, up to a length
server_options               the server that a subcommand asks, and the credentials
limited_connection           an HTTP connection with limits on the time and size of responses
api_client                   asks a running server, for subcommands
"""
