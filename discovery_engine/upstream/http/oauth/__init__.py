"""Access tokens of remote servers: OAuth 2.1.

token_source        the token of a server, refreshed before it expires and when it is refused
authorized_sender   requests that carry it, to its server only
stored_login        what is stored of a login
token_endpoint      requests to a token endpoint, and to the one that revokes
metadata            what servers publish about their authorization
browser_login       the authorization code grant, with a browser
loopback            receives what the browser brings back
"""
