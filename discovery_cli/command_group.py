"""A command group that suggests the nearest command for an unknown name."""

from __future__ import annotations

from collections.abc import Iterable

import click

_WHOLE = 1000  # characters, more than any summary


class Group(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        word = args[0]
        if word in names or word.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"there is no command {word!r}{did_you_mean(word, names)}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Whole summaries: click would cut them to one line."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, entry.get_short_help_str(_WHOLE)) for name, entry in commands if entry]
            )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown word; empty if no known word is near."""
    from discovery_engine._util.suggestions import nearest

    meant = nearest(word, known)
    return f", did you mean {' or '.join(map(repr, meant))}?" if meant else ""
