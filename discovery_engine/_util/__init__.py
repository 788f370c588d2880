"""Small modules without knowledge of this project."""
