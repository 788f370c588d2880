"""Access tokens of remote servers: OAuth 2.1.

authorized_sender   the token of a server, refreshed before it expires and when it is refused, and
                    the requests that carry it, to its server only
stored_login        what is stored of a login
token_endpoint      requests to a token endpoint, and to the one that revokes
metadata            what servers publish about their authorization
browser_login       the grants: an authorization code by a browser, or client credentials
"""
