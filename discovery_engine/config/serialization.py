"""Settings as their owner would write them: to be shown, or to be written to a file."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from discovery_engine._util.json import JSONObject, JSONValue
from discovery_engine.config.redaction import redact_transport, redact_url
from discovery_engine.config.settings import (
    EmbeddingsSettings,
    Limits,
    RemoteTransport,
    ServerSettings,
    Settings,
    StdioTransport,
    Timeouts,
)
from discovery_engine.overrides.override import Override
from discovery_engine.rules.rule import Rule
from discovery_engine.secrets.references import REDACTED, redact_literals

OWN_SOURCE = "discovery.yaml"


def serialize_redacted(settings: Settings) -> JSONObject:
    """The configuration in force, with every literal that could be a secret hidden.

    A server that came from a source names it, and one with a broken entry says what is wrong;
    those two keys are for the reader, and cannot be written.
    """
    shown = serialize(_without_key(settings))
    shown["overrides"] = [_dump_override(_redacted(override)) for override in settings.overrides]
    for server in settings.servers:
        shown["servers"][server.name] = serialize_server_redacted(server)
    return shown


def serialize_server_redacted(server: ServerSettings) -> JSONObject:
    if server.problem:
        return {"problem": str(server.problem)}
    shown = serialize_server(
        replace(server, transport=redact_transport(server.transport) if server.transport else None)
    )
    return shown if server.source == OWN_SOURCE else {**shown, "source": server.source}


def _without_key(settings: Settings) -> Settings:
    embeddings = settings.search.embeddings
    hidden = replace(
        embeddings,
        url=redact_url(embeddings.url) if embeddings.url else "",
        api_key=redact_literals(embeddings.api_key),
    )
    return replace(settings, search=replace(settings.search, embeddings=hidden))


def serialize(settings: Settings) -> JSONObject:
    """The canonical form, which loads as the same settings; secrets that it holds are in it."""
    weights = settings.search.weights
    return {
        "enabled": settings.enabled,
        "cache": {"enabled": settings.cache.enabled, "ttl": settings.cache.ttl},
        "sources": [_without_nothing(type=one.type, path=one.path) for one in settings.sources],
        "servers": {server.name: serialize_server(server) for server in settings.servers},
        "serverRules": list(map(_dump_rule, settings.server_rules)),
        "toolRules": list(map(_dump_rule, settings.tool_rules)),
        "overrides": list(map(_dump_override, settings.overrides)),
        "search": {
            "limit": settings.search.limit,
            "weights": {
                "exact": weights.exact,
                "partial": weights.partial,
                "tag": weights.tag,
            },
            "maxTokens": settings.search.max_tokens,
            "minConfidence": settings.search.min_confidence,
            "embeddings": _dump_embeddings(settings.search.embeddings),
            "synonyms": list(map(list, settings.search.synonyms)),
            "learn": settings.search.learn,
        },
        "server": {
            "maxConnecting": settings.server.max_connecting,
            "idleTimeout": settings.server.idle_timeout,
            "instructionsTokens": settings.server.instructions_tokens,
            "listTokens": settings.server.list_tokens,
            "detailsTokens": settings.server.details_tokens,
            "maxSessions": settings.server.max_sessions,
            "maxOwnSessions": settings.server.max_own_sessions,
        },
        "log": _without_nothing(
            level=settings.log.level, file=settings.log.file, stderr=settings.log.stderr
        ),
        "trust": settings.trust,
    }


def _dump_embeddings(embeddings: EmbeddingsSettings) -> JSONObject:
    return _without_nothing(
        provider=embeddings.provider,
        model=embeddings.model,
        path=embeddings.path,
        url=embeddings.url,
        apiKey=embeddings.api_key,
        dimensions=embeddings.dimensions or None,
        batch=embeddings.batch,
        timeout=embeddings.timeout,
    )


def serialize_server(server: ServerSettings) -> JSONObject:
    """An entry of `servers`, with nothing in it that goes without saying."""
    return {
        **_dump_transport(server.transport),
        **_without_nothing(
            description=server.description,
            enabled=None if server.enabled else False,
            prefix=server.prefix,
            tags=list(server.tags),
            timeouts=_dump_timeouts(server.timeouts),
            limits=_dump_limits(server.limits),
            session=None if server.session == "shared" else server.session,
            trust=server.trust,
        ),
    }


def _dump_transport(transport: StdioTransport | RemoteTransport | None) -> JSONObject:
    match transport:
        case StdioTransport(command, args, env, cwd):
            return _without_nothing(command=command, args=list(args), env=dict(env), cwd=cwd)
        case RemoteTransport(url, headers, kind):
            transport_kind = None if kind == "auto" else kind
            return _without_nothing(url=url, headers=dict(headers), transport=transport_kind)
        case None:
            return {}


def _dump_timeouts(timeouts: Timeouts) -> JSONObject:
    usual = Timeouts()
    return _without_nothing(
        connect=timeouts.connect,
        list=None if timeouts.list == usual.list else timeouts.list,
        call=None if timeouts.call == usual.call else timeouts.call,
    )


def _dump_limits(limits: Limits) -> JSONObject:
    usual = Limits()
    return _without_nothing(
        calls=None if limits.calls == usual.calls else limits.calls,
        queue=None if limits.queue == usual.queue else limits.queue,
        answerMib=None if limits.answer_mib == usual.answer_mib else limits.answer_mib,
        sessions=None if limits.sessions == usual.sessions else limits.sessions,
    )


def _dump_rule(rule: Rule) -> JSONObject:
    return {
        **_without_nothing(
            pattern=_one_or_many(rule.patterns),
            server=_one_or_many(rule.servers),
            annotations=dict(rule.annotations),
            matchTags=_one_or_many(rule.has_tags),
            tags=list(rule.tags),
        ),
        **({} if rule.enabled is None else {"enabled": rule.enabled}),
    }


def _dump_override(override: Override) -> JSONObject:
    return _without_nothing(
        pattern=_one_or_many(override.patterns),
        server=_one_or_many(override.servers),
        description=override.description,
        name=override.name,
        tags=list(override.tags),
        arguments=dict(override.arguments),
    )


def _redacted(override: Override) -> Override:
    arguments = {name: _without_literals(value) for name, value in override.arguments.items()}
    return replace(override, arguments=arguments)


def _without_literals(value: JSONValue) -> JSONValue:
    """The value with its references as written, and everything else that says much hidden."""
    match value:
        case str():
            return redact_literals(value)
        case list():
            return list(map(_without_literals, value))
        case dict():
            return {name: _without_literals(member) for name, member in value.items()}
        case None | bool():
            return value
    return REDACTED


def _one_or_many(words: Sequence[str]) -> str | list[str]:
    return words[0] if len(words) == 1 else list(words)


def _without_nothing(**members: JSONValue) -> JSONObject:
    """The members that say something; `False` does."""
    return {key: value for key, value in members.items() if value not in (None, "", [], {})}
