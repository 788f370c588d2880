"""The configuration: files found, read, checked and merged into settings."""
