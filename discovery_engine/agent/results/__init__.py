"""Results that are too long for an agent: cut where they stay valid, kept, and read on."""
