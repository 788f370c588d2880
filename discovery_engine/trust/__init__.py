"""Which servers may be started, and which definitions of tools are accepted.

`admission` is the gate that every server passes before it is started or reached; `integrity`
holds a tool back when what it says is not what was accepted; `lockfile` pins a whole catalog.
Pure values and functions: others read the registry and the files.
"""
