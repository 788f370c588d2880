"""The answers of the meta-tools: a short text for the model, all fields for programs.

The text fits a budget of tokens, notices included, whatever the catalog holds. The fields go into
`_meta`, which hosts do not show to the model. Equal questions on an equal catalog give equal
bytes: the text contains no age and no time.
"""
