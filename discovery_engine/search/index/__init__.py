"""The inverted index of a catalog: documents, postings, levels, and its form as bytes."""
