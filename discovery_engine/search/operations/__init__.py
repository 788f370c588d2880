"""The operations that requests ask for and tools do, and whether they agree."""
