"""Decides which servers may be started, and which definitions of tools are accepted.

`admission` is the gate that every server passes before it is started or reached; `integrity`
withholds a tool whose definition is not the accepted one; `lockfile` pins a whole catalog.
Pure values and functions: others read the registry and the files.
"""
