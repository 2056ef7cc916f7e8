"""`uncover demo`: a small example from measurement to answer."""

from __future__ import annotations

from pathlib import Path

import click

from uncover.cli.progress import say


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    default=Path("demo-output"),
    show_default=True,
    help="Folder for the results; made where there is none.",
)
def demo(out: Path) -> None:
    """Run a small example from measurement to answer, on simulated data.

    Simulates noisy spectra, fits a classifier, predicts new samples, compares with a classifier that
    ignores the noise, flags samples of a class never trained, saves the model and loads it again.

    \b
    Example:
      uncover demo --out demo-output
    """
    from uncover.studies.demo import run_demo  # scikit-learn is slow to import: --help need not wait for it

    try:
        result = run_demo(out, progress=say)
    except OSError as problem:
        raise click.ClickException(f"cannot write to {out}: {problem.strerror or problem}") from None
    click.echo(result.summary())
    click.echo("The model was saved, loaded again, and predicts the same to the last bit. Files:")
    for file in result.files:
        click.echo(f"  {file}")
