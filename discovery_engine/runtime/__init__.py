"""What keeps an engine running: listing, calls, state, maintenance and restored catalogs."""
