"""Text as the search reads it: words, stems, concepts, languages and spellings."""
