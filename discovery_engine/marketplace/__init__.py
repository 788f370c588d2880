"""Servers that others publish: found, described and compared; nothing here installs or runs one."""
