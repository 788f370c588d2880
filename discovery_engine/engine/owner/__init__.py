"""The owner's own verbs: approve servers, review changed tools, write the lock file.

Each verb decides, stores, applies and publishes: after `await engine.trust.approve(…)` the
decision is on the disk, the engine answers by it, and `TrustChanged` was published. Whatever
blocks is done in a thread.

    approvals   `engine.trust`: which servers may be started
    reviews     `engine.review`: which definitions of tools are accepted
    lock        `engine.lock`: the catalog, pinned in a file

What is decided is what was shown: `approve` takes candidates and `accept` takes reviews, not
names, since a file or a tool can change between the look and the word.
"""
