"""What may be started, and what a tool may say: the owner's word, and how it is held against both.

`admission` is the gate that every server passes before it is started or reached; `integrity`
holds a tool back when what it says is not what was accepted; `lockfile` pins a whole catalog.
Pure values and functions: others read the registry and the files.
"""
