"""References to secrets, and how names and values of secrets are recognised."""
