"""Everything that an agent reads and calls: meta-tools, rendered answers and instructions."""
