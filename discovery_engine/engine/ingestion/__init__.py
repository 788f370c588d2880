"""Makes a part of the catalog of a listing: applies rules, overrides, findings and trust.

All functions are pure, over frozen values; `catalog_state` calls them in threads.
"""
