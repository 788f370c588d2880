"""What requests ask software to do, what tools do, and whether both agree."""
