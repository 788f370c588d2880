"""The owner's editing of `discovery.yaml`: an edit is planned, shown as a diff, then applied.

Nothing here asks, prints or starts anything.
"""
