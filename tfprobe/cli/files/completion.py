"""`tfprobe completion`: print a script that completes the commands of tfprobe in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tfprobe.cli import common

SHELLS = ("bash", "fish", "zsh")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def command(shell: str) -> None:
    """Print a script that completes the commands of tfprobe in a shell.

    \b
    tfprobe completion bash > ~/.local/share/bash-completion/completions/tfprobe
    tfprobe completion fish > ~/.config/fish/completions/tfprobe.fish
    tfprobe completion zsh > ~/.zfunc/_tfprobe
    """
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise click.UsageError(f"click has no completion for {shell}.")
    # click's completion script asks the program itself, so it needs no tree of commands here.
    script = shell_class(click.Command("tfprobe"), {}, "tfprobe", "_TFPROBE_COMPLETE")
    common.show(script.source() + "\n")
