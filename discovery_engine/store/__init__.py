"""The catalog, decisions and vectors that are kept between runs: one protocol for each concern.

`protocols` defines the contract of a back-end; `backends` opens one by its URL. Code that needs one
concern takes that protocol, not the whole registry.
"""
