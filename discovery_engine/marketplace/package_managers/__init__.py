"""The user's own package managers, asked about packages; nothing of a package is ever run.

Addresses of indexes, proxies and credentials are those of the package managers' own settings.
"""
