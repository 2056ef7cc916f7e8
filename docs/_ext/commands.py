"""The directive `commands`: a reference of a click group, made from the commands themselves.

    ```{commands} uncover.cli:main
    ```

Every command becomes a section, every option an object of the index and the search.
"""

import re
from importlib import import_module
from inspect import cleandoc

import click
from sphinx.util.docutils import SphinxDirective


class Commands(SphinxDirective):
    """Write the help of each command of a group as Markdown, and let Sphinx read it."""

    required_arguments = 1

    def run(self):
        self.env.note_reread()  # the commands may have changed, though the page has not
        return self.parse_text_to_nodes(as_markdown(self.arguments[0]), allow_section_headings=True)


def as_markdown(where):
    """Sections of all commands of the group `module:name`."""
    module, _, name = where.partition(":")
    group = getattr(import_module(module), name)
    context = click.Context(group, info_name=module.split(".")[0], **group.context_settings)
    commands = [(each, group.get_command(context, each)) for each in group.list_commands(context)]
    return "\n\n".join(_section(command, context, each) for each, command in commands)


def _section(command, parent, name):
    """One command: what it does, how it is called, its options and its examples."""
    context = click.Context(command, parent=parent, info_name=name)
    program = context.command_path
    usage = " ".join([program, *command.collect_usage_pieces(context)])
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    return "\n\n".join(
        [
            f"## {program}",
            _inline(_plain(command.help or "")),
            f"```text\n{usage}\n```",
            f"```{{program}} {program}\n```",
            *(_option(option, context) for option in options),
            *_examples(command.epilog or ""),
        ]
    )


def _option(option, context):
    about = option.get_help_record(context)[1]
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    spellings = ", ".join(f"{each}{metavar}" for each in [*option.opts, *option.secondary_opts])
    return f"````{{option}} {spellings}\n{_inline(about)}\n````"


def _examples(epilog):
    """Lines that are indented are commands, the others say what they are for."""
    for indented, text in re.findall(r"((?:^ +.*\n?)+)|((?:^\S.*\n?)+)", _plain(epilog), re.MULTILINE):
        yield f"```shell\n{cleandoc(indented)}\n```" if indented else _inline(" ".join(text.split()))


def _plain(text):
    """Text without its indent and the mark by which click keeps lines as they are."""
    return cleandoc(text.replace("\b", ""))


def _inline(text):
    """Options as literals, so that two hyphens stay two; nothing else is markup."""
    parts = re.split(r"(`[^`]*`|(?<![\w-])--?[a-z][\w-]*)", text)
    parts[1::2] = [f"`{each.strip('`')}`" for each in parts[1::2]]
    parts[::2] = [re.sub(r"([$*\[\]<>_|])", r"\\\1", each) for each in parts[::2]]
    return "".join(parts)


def setup(app):
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
