"""Commands that have commands of their own, such as ``jobrun runs tag``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from jobrun.cli.options import nearest_option, settings, shared_options
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean


class SubcommandGroup(click.Group):
    """A group of commands; with ``default``, that one is meant where none is named.

    Args:
        name: The group's.
        help: Of the group.
        default: The command that is used without a name; empty for none.
        examples: Command lines to show.
    """

    def __init__(
        self, name: str, help: str, default: str = "", examples: Sequence[str] = ()  # noqa: A002
    ) -> None:  # fmt: skip
        super().__init__(
            name, help=help, context_settings=settings(), no_args_is_help=not default,
            epilog="\n  ".join(["\b\nExamples:", *examples]) if examples else None,
            params=shared_options(), subcommand_metavar="COMMAND [ARGUMENTS]...",
        )  # fmt: skip
        self._default = default

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of their definition."""
        del ctx
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options in front of the command.

        Raises:
            UsageError: An option is not known.
        """
        if self._default and not {"-h", "--help"} & set(args[:1]):
            named = next((word for word in args if not word.startswith("-")), "")
            if named not in self.commands:
                args = [self._default, *args]
        with nearest_option(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of ``args[0]``.

        Raises:
            UsageError: There is no such command.
        """
        if args[0] not in self.commands:
            raise UsageError.of(
                "E400",
                f"no such command '{ctx.command_path} {args[0]}'",
                did_you_mean(args[0], self.commands),
            )
        return super().resolve_command(ctx, args)
