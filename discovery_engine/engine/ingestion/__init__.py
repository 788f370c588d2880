"""From a listing to a part of the catalog: rules, overrides, findings and trust are applied.

All functions are pure, over frozen values; `catalog_state` calls them in threads.
"""
