"""Entry point of labctl: parses the command line, runs the command, turns every error into two lines."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click

from lab.cli import streams
from lab.cli.complete import COMPLETE_VARIABLE, PROGRAM
from lab.cli.context import App, LabCommand, LabGroup, shared_options
from lab.cli.listing import Commands, listed
from lab.errors import INTERRUPTED, LabError, OutputError, SetupError, UsageError
from lab.extension import SECTIONS
from lab.host import command
from lab.host.environment import ElsewhereError, go_on
from lab.host.interrupts import SIGNALLED, SignalError, exit_code, raised
from lab.version import __version__

BROKEN_PIPE = 141
"""Exit code when the reader of stdout went away, as in a shell (128 + SIGPIPE)."""

MACHINES = (
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO),
    *(errno.ENFILE, errno.EMFILE, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
)
"""Errors that the machine or a given path is to blame for, not labctl."""


class InterruptError(LabError):
    """Ctrl-C, or a signal, with the exit code that it has."""

    exit_code = INTERRUPTED


class Root(LabGroup):
    """The command line as a whole."""

    def main(
        self, args: Sequence[str] | None = None, *_: object, obj: App | None = None, **__: object
    ) -> NoReturn:
        """Run one command line and exit with its code."""
        sys.exit(main(args, obj))

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        LabCommand.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by section."""
        longest = max(map(len, self.commands))
        for title in dict.fromkeys((*SECTIONS, *(one.section for one in listed()))):
            rows = [(one.name.ljust(longest), one.help) for one in listed() if one.section == title]
            if rows:  # all of a section may be of extensions that are not there
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.group(
    cls=Root,
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
)
@click.version_option(package_name=None, version=__version__, prog_name=PROGRAM)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Boot a small Ray cluster with an object store on this machine, train on it, break it on purpose, and
    prove that training resumed from its checkpoint.

    Start with `labctl demo`, or with `labctl up` and `labctl submit digits`.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


shared_options(cli, root=True)
cli.commands = Commands()


def main(args: Sequence[str] | None = None, app: App | None = None) -> int:
    """Run labctl with these arguments (default: the process's own) in `app`; returns its exit code.

    Nothing but SystemExit gets out.
    """
    args, app = sys.argv[1:] if args is None else args, app or App()
    with streams.guarded() as stdout:
        code = OutputError.exit_code
        try:
            code = _run(args, app, stdout)
            sys.stdout.flush()
        except OSError as error:
            if error is not stdout.error:
                raise
        if stdout.error is None or code > SIGNALLED:
            return code
        if isinstance(stdout.error, BrokenPipeError):
            return BROKEN_PIPE
        lost = OutputError(
            f"cannot write to stdout: {stdout.error.strerror}",
            "what was done is done; only its output is lost",
        )
        app.out.complain(lost, document=False)
        return lost.exit_code


def _run(args: Sequence[str], app: App, stdout: streams.Guarded) -> int:
    own = list(args)[: list(args).index("--")] if "--" in args else list(args)
    try:
        with raised(), _echoing(app):
            try:
                code = _invoke(list(args), app)
            except ElsewhereError as error:  # what the command did so far, it does again there
                code = go_on(error.group, list(args))
            sys.stdout.flush()
        return code
    except click.exceptions.Exit as error:
        return error.exit_code
    except BaseException as error:
        if isinstance(error, (SystemExit, GeneratorExit)) or error is stdout.error:
            raise
        app.out.json_wanted = app.out.json_wanted or "--json" in own
        return _report(error, app, verbose=app.verbose or "--verbose" in own)


class _Echo(logging.Handler):
    """Echoes external commands with --verbose."""

    def __init__(self, app: App) -> None:
        super().__init__()
        self._app = app

    def emit(self, record: logging.LogRecord) -> None:
        if self._app.verbose:
            self._app.out.note(f"$ {record.getMessage()}")


@contextlib.contextmanager
def _echoing(app: App) -> Iterator[None]:
    """Echo external commands while the context is open."""
    handler, level = _Echo(app), command.log.level
    command.log.addHandler(handler)
    command.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        command.log.removeHandler(handler)
        command.log.setLevel(level)


def _complete(instruction: str, app: App) -> int:
    """Answer a shell's request for completions. Raises UsageError when the variables are not a shell's."""
    from click.shell_completion import shell_complete

    code = 1
    with contextlib.suppress(KeyError, ValueError):
        code = shell_complete(cli, {"obj": app}, PROGRAM, COMPLETE_VARIABLE, instruction)
    if code:
        raise UsageError(
            f"{COMPLETE_VARIABLE}={instruction}: not a request that a shell's completion makes",
            f"unset it; `{PROGRAM} self completion bash` prints what bash needs",
        )
    return code


def _invoke(args: list[str], app: App) -> int:
    instruction = os.environ.get(COMPLETE_VARIABLE)
    if instruction:
        return _complete(instruction, app)
    try:
        with cli.make_context(PROGRAM, args, obj=app) as ctx:
            cli.invoke(ctx)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(f"{error.message}\n", err=True)  # the help
        raise UsageError("missing command", "name one of the commands above") from error
    return 0


def _report(error: BaseException, app: App, *, verbose: bool) -> int:
    """Show an error to the person and return its exit code: the one place that does."""
    if isinstance(error, click.Abort) and isinstance(error.__context__, SignalError):
        error = error.__context__  # click makes an Abort of it at a question
    if isinstance(error, (KeyboardInterrupt, EOFError, click.Abort)):
        return _interrupted(error, app)
    if verbose:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, LabError):
        shown = error
    elif isinstance(error, click.ClickException):
        shown = _usage(error)
    elif isinstance(error, OSError) and error.errno in MACHINES:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        shown = SetupError(f"{where}{error.strerror}", "check its owner, its length and the disk")
    else:
        cause = f"{type(error).__name__}: {error}".strip(": ")
        hint = (
            "the traceback above says where"
            if verbose
            else "run it again with --verbose to see the traceback"
        )
        shown = LabError(f"labctl has a bug: {cause}", hint)
    app.out.complain(shown)
    return shown.exit_code


def _interrupted(error: BaseException, app: App) -> int:
    shown = InterruptError("interrupted")
    if isinstance(error, SignalError) and error.number != signal.SIGINT:
        shown.message, shown.exit_code = str(error), exit_code(error)
    with contextlib.suppress(OSError):  # after SIGHUP the terminal may be gone
        if app.out.json_wanted:
            app.out.complain(shown)
        else:
            click.echo(shown.message, err=True)
    return shown.exit_code


def _usage(error: click.ClickException) -> UsageError:
    if isinstance(error, click.NoSuchOption) and error.option_name == "--name":
        return UsageError(
            "--name is no longer an option", "--lab names the lab; --job-name of `submit` names the job"
        )
    text, _, meant = error.format_message().strip().partition("Did you mean")
    text = text.partition(" Choose from:")[0].rstrip(" (.")
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else PROGRAM
    guess = f"did you mean{meant.rstrip(' )')} " if meant else ""
    return UsageError(text[:1].lower() + text[1:], f"{guess}see `{path} --help`")
