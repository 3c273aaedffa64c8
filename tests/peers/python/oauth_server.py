"""An MCP server of the Python SDK 1.30 that wants a token, and gives one to whom it sent to log in.

    python oauth_server.py --port 0 --public http://127.0.0.1:8808

`--public` is the address by which it believes to be reached: its documents and challenges name it.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import socket
import time

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.fastmcp import FastMCP
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from steering import WebServer

HOUR_S = 3600


class Authority:
    """An authorization server that lets everybody in and forgets all when it ends."""

    def __init__(self) -> None:
        self._clients: dict[str, OAuthClientInformationFull] = {}
        self._codes: dict[str, AuthorizationCode] = {}
        self._tokens: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self._clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self._clients[str(client_info.client_id)] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(24)
        self._codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + HOUR_S,
            client_id=str(client.client_id),
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        token = secrets.token_urlsafe(24)
        self._tokens[token] = AccessToken(
            token=token,
            client_id=str(client.client_id),
            scopes=authorization_code.scopes,
            resource=authorization_code.resource,
        )
        return OAuthToken(access_token=token, expires_in=HOUR_S)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return None

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self._tokens.get(token)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--public", required=True, help="the address by which clients reach it")
    options = parser.parse_args()

    settings = AuthSettings(
        issuer_url=options.public,
        resource_server_url=f"{options.public}/mcp",
        client_registration_options=ClientRegistrationOptions(enabled=True),
        validate_token_resource=True,
    )
    server = FastMCP("peer", auth_server_provider=Authority(), auth=settings)

    @server.tool(structured_output=False)
    async def echo(text: str) -> str:
        """Give back what was said."""
        return text

    listener = socket.create_server(("127.0.0.1", options.port))
    app = server.streamable_http_app()
    await WebServer(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none")).serve([listener])


if __name__ == "__main__":
    asyncio.run(main())
