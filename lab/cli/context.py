"""Context of every command: the shared options, the lab they choose, and the output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import click

from lab.cli import values
from lab.cli.output import Output
from lab.errors import LabError, RefusedError, UsageError
from lab.extension import load, runtimes
from lab.host.clock import MONOTONIC, Clock
from lab.host.naming import about, about_cluster, pages
from lab.topology import DEFAULT_LAB, Vendor

if TYPE_CHECKING:
    from lab.host.environment.progress import Printer
    from lab.lab import Lab

Decorator: TypeAlias = Callable[[Callable[..., object]], Callable[..., object]]
"""Gives the function of a command something more, such as an option."""

RUNTIMES = ("local", "compose", "class", "auto")
AFTER_DASHES = "labctl.after-dashes"
UNBROKEN = "\N{NON-BREAKING HYPHEN}"
GPUS = (*(vendor.value for vendor in Vendor), "auto")


def open_lab(runtime: str, name: str) -> Lab:
    """Open a lab, as a program does."""
    from lab.lab import Lab

    return Lab(runtime, name=name)


def asks() -> bool:
    """Tell if somebody is there to answer a question."""
    return sys.stdin.isatty()


class App:
    """One invocation of labctl."""

    def __init__(self, opener: Callable[[str, str], Lab] = open_lab, clock: Clock = MONOTONIC) -> None:
        """`opener` gets runtime and name, and returns the lab."""
        self.opener, self.clock = opener, clock
        self.lab: str | None = None
        self.runtime = "auto"
        self.cluster = ""
        """Options that name the cluster which the command is about, as they are typed; empty for a lab."""
        self.verbose = False
        self.out = Output(about=self._about)

    @property
    def name(self) -> str:
        """The lab's name. Raises UsageError."""
        from lab.runtime.select import lab_name

        return lab_name(self.lab)

    def _about(self, text: str) -> str:
        """Advice that names this lab, or the cluster, and pages that are there."""
        text = pages(text)
        if "labctl " not in text:
            return text
        from lab.runtime.select import lab_name

        if self.cluster:
            return about_cluster(text, self.cluster)
        try:
            return about(text, self.name, lab_name(None))
        except UsageError:  # no lab has such a name
            return text

    def open(self, *, announce: bool = False) -> Lab:
        """The lab that --lab and --runtime choose. `announce` says on stderr which runtime that is.

        Raises what Lab() raises.
        """
        lab = self.opener(self.runtime, self.name)
        if announce or self.verbose:
            why = lab.why.removeprefix("auto: ")
            reason = f" (auto: {why})" if self.runtime == "auto" and why else ""
            self.out.note(f"runtime: {lab.view.kind}{reason}")
        return lab

    def open_anywhere(self, place: Mapping[str, str | None]) -> Lab:
        """The lab that --lab and --runtime choose, or the cluster that is named. Raises UsageError."""
        outside = runtimes()
        if self.outside:
            lab: Lab = load(outside[self.runtime].module).open_lab(self, **place)
            return lab
        for name, value in place.items():
            if value:
                raise UsageError(
                    f"--{name} without --runtime {' or '.join(outside)}", "it names a part of a cluster"
                )
        return self.open()

    @property
    def outside(self) -> bool:
        """True for a cluster that labctl does not run."""
        return self.runtime in runtimes()

    def progress(self) -> Printer:
        """Progress of a long operation, on stderr; silent with --quiet."""
        from lab.host.environment.progress import Printer

        return Printer(lambda _: None) if self.out.quiet else Printer()

    def confirm(self, message: str, verb: str = "delete") -> None:
        """Ask before something is done for good. Raises RefusedError unless the answer is yes."""
        if self.out.json_wanted or not asks():
            raise RefusedError(message, f"say --yes to {verb} them; nothing was changed")
        self.out.ask(message)
        if not click.confirm(f"{verb.capitalize()}?", default=False, err=True):
            raise RefusedError("not confirmed; nothing was changed")

    def fail(self, error: LabError) -> NoReturn:
        """Exit with an error once the result is printed: with --json no second document follows it."""
        self.out.complain(error, document=False)
        raise click.exceptions.Exit(error.exit_code)


pass_app = click.make_pass_decorator(App)


def options(*chosen: Decorator) -> Decorator:
    """A decorator that gives a command these options, listed in this order."""

    def decorate(command: Callable[..., object]) -> Callable[..., object]:
        for option in reversed(chosen):
            command = option(command)
        return command

    return decorate


class SharedOption(click.Option):
    """An option of every command."""


class LabFormatter(click.HelpFormatter):
    """Help whose lines break between words only: click also breaks `fault-inject` and names of files."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(pages(text).replace("-", UNBROKEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """Write terms and what they are."""
        texts = [(term, text.replace("-", UNBROKEN).replace("  [", " [")) for term, text in rows]
        super().write_dl(texts, col_max, col_spacing)

    def write(self, string: str) -> None:
        """Write as it is."""
        super().write(string.replace(UNBROKEN, "-"))


class LabContext(click.Context):
    """The context of one command line."""

    formatter_class = LabFormatter


class LabCommand(click.Command):
    """A command whose help shows the shared options in a section of their own."""

    context_class = LabContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; the error of an option without its value names this command, which click leaves out."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """`-h`, too: click keeps the option of the first context, which need not be below labctl's own."""
        return ["-h", "--help"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections `Options` and `Shared options`; click has written the arguments."""
        sections: dict[str, list[click.Parameter]] = {"Options": [], "Shared options": []}
        for param in self.get_params(ctx):
            if not isinstance(param, click.Argument):
                sections["Shared options" if isinstance(param, SharedOption) else "Options"].append(param)
        for title, params in sections.items():
            self._format_section(title, params, ctx, formatter)

    @staticmethod
    def _format_section(
        title: str, params: list[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        records = [record for p in params if (record := p.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


class DashCommand(LabCommand):
    """Keeps what follows `--` apart: it lies in `ctx.meta[AFTER_DASHES]`, which is unset without `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`; the rest stays as it is."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[AFTER_DASHES] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


class LabGroup(LabCommand, click.Group):
    """A group of such commands."""

    command_class = LabCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        LabCommand.format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each with its first sentence; click cuts it short."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(1000)) for name in self.list_commands(ctx)]
            )


class RuntimeName(click.Choice[str]):
    """A runtime that the command can use."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises UsageError for that of a cluster where a lab of this machine is meant."""
        if value not in self.choices and value in runtimes():
            raise UsageError(
                f"--runtime {value}: labctl starts no cluster and runs nothing there",
                "labctl fault-inject and labctl heal take this runtime",
            )
        return super().convert(value, param, ctx)


def shared_options(command: click.Command, *, root: bool = False, clusters: bool = False) -> None:
    """Give `command` the shared options. They may stand before or after it; the last given counts.

    `root` adds the environment variables; `clusters` lets it take the runtimes of extensions.
    """
    outside = runtimes() if clusters else {}
    for runtime in outside.values():
        load(runtime.module).OPTIONS(command)
    for option in _shared(root=root, names=(*RUNTIMES, *outside)):
        option(command)


def _shared(*, root: bool, names: tuple[str, ...]) -> Iterator[Callable[[click.Command], click.Command]]:
    def option(*flags: str, **attributes: object) -> Callable[[click.Command], click.Command]:
        return click.option(*flags, cls=SharedOption, expose_value=False, callback=_store, **attributes)

    yield option(
        "--lab", type=values.LabName(), metavar="LAB",
        help=f"Name of the lab. [default: $RAYLAB_NAME or {DEFAULT_LAB}]",
    )  # fmt: skip
    yield option(
        "--runtime", type=RuntimeName(names), envvar="RAYLAB_RUNTIME" if root else None,
        help="Kind of lab: plain processes, Docker Compose, or the lab of a class elsewhere. "
        "[default: $RAYLAB_RUNTIME or auto]",
    )  # fmt: skip
    yield option("--json", is_flag=True, help="Print JSON on stdout; progress stays on stderr.")
    yield option("--verbose", is_flag=True, help="Say more; echo commands; show tracebacks.")
    yield option("--quiet", is_flag=True, help="No progress on stderr.")


def _store(ctx: click.Context, param: click.Parameter, value: object) -> None:
    app = ctx.find_object(App)
    if app is None or not value:
        return
    if param.name == "json":
        app.out.json_wanted = True
    elif param.name == "quiet":
        app.out.quiet = True
    elif param.name is not None:
        setattr(app, param.name, value)
