"""The command line as a whole: how commands are found, and how they end when something is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import types
import warnings
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import gmmatch.__main__
from gmmatch.cli import COMMANDS, build_app
from gmmatch.cli.io.group import CommandFiles, CommandGroup
from gmmatch.errors import FarRowWarning, InvalidInputError

FOLDER = Path(gmmatch.__file__).parent / "cli"


def run(*arguments: str, app: typer.Typer | None = None, env: dict[str, str] | None = None):
    return CliRunner().invoke(app or build_app(), arguments, env=env or {})


@pytest.fixture
def app_running(monkeypatch):
    """A command line whose only command, ``work``, does what the test says."""

    def make(work) -> typer.Typer:
        package, module = types.ModuleType("made_up"), types.ModuleType("made_up.work")

        def command() -> None:
            """Do the work."""
            work()

        module.work = command
        monkeypatch.setitem(sys.modules, "made_up", package)
        monkeypatch.setitem(sys.modules, "made_up.work", module)
        app = typer.Typer(cls=CommandGroup.of("made_up", ["work"]), pretty_exceptions_enable=False)
        app.callback()(sys.modules["gmmatch.cli"].options)
        return app

    return make


def test_every_file_is_a_command_and_every_command_a_file():
    assert sorted(COMMANDS) == sorted(
        path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if not path.stem.startswith("_")
    )


def test_help_names_every_command_with_its_first_line():
    result = run("--help")
    assert result.exit_code == 0
    for name in COMMANDS:
        line = next(line for line in result.stdout.splitlines() if f" {name} " in line)
        assert len(line.split()) > 4, f"{name} has no description"


def test_every_command_explains_itself_and_every_option_has_help():
    for name in COMMANDS:
        result = run(name, "--help")
        assert result.exit_code == 0
        command = CommandFiles("gmmatch.cli", COMMANDS)[name]
        assert all(parameter.help for parameter in command.params if hasattr(parameter, "help"))


def test_version_is_the_package_version():
    assert run("--version").stdout == f"gmmatch {gmmatch.__version__}\n"


def test_the_installed_script_is_main():
    (script,) = entry_points(group="console_scripts", name="gmmatch")
    assert script.load() is gmmatch.__main__.main


def test_an_unknown_command_is_an_error_with_the_nearest_name():
    result = run("metods")
    assert result.exit_code == 2
    assert "'methods'" in result.stderr


def test_an_error_becomes_one_line_and_exit_code_2(app_running):
    def work():
        raise InvalidInputError("k=0: expected\n  at least 1.")

    result = run("work", app=app_running(work))
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", "Error: k=0: expected at least 1.\n")


@pytest.mark.parametrize(
    ("arguments", "env"), [(["--traceback", "work"], {}), (["work"], {"GMMATCH_TRACEBACK": "1"})]
)
def test_developers_get_the_error_itself(app_running, arguments, env):
    def work():
        raise InvalidInputError("k=0")

    result = run(*arguments, app=app_running(work), env=env)
    assert isinstance(result.exception, InvalidInputError)


def test_a_bug_is_not_dressed_up_as_a_user_error(app_running):
    def work():
        raise ZeroDivisionError

    assert isinstance(run("work", app=app_running(work)).exception, ZeroDivisionError)


def test_ctrl_c_ends_with_one_line_and_130(app_running):
    def work():
        raise KeyboardInterrupt

    result = run("work", app=app_running(work))
    assert (result.exit_code, result.stderr) == (130, "Interrupted.\n")


def test_our_warnings_are_one_line_on_stderr_without_a_place_in_the_source(app_running):
    def work():
        warnings.simplefilter("always")
        warnings.warn("Row 3 lies far out.", FarRowWarning, stacklevel=1)

    result = run("work", app=app_running(work))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "Warning: Row 3 lies far out.\n")


def test_warnings_are_shown_as_before_after_a_command(app_running):
    before = warnings.showwarning
    run("work", app=app_running(lambda: None))
    assert warnings.showwarning is before


def test_methods_lists_every_method_of_the_registry_with_a_summary():
    listed = json.loads(run("methods", "--json").stdout)
    assert [method["name"] for method in listed] == list(gmmatch.methods())
    for method in listed:
        assert method["summary"].endswith("."), method
        assert method["class"] == gmmatch.method_class(method["name"]).__name__


def test_methods_table_has_the_same_content():
    text = " ".join(run("methods").stdout.split())
    for method in json.loads(run("methods", "--json").stdout):
        default = " (the default)" if method["name"] == "robust" else ""
        assert f"{method['name']} {method['summary'][:-1]}{default}." in text


def test_commands_of_the_laboratory_are_found_through_their_entry_points():
    added = {point.name: point.value for point in entry_points(group="gmmatch.commands")}
    assert set(added) == {"corrupt", "reproduce"}
    help_text = run("--help").stdout
    for name, value in added.items():
        assert value.startswith("gmmatch_paper.") and f" {name} " in help_text
        assert run(name, "--help").exit_code == 0


def test_without_the_laboratory_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    for name in ("corrupt", "reproduce"):
        result = run(name, "--anything")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.count("\n") == 1
        assert f"gmmatch {name}" in result.stderr and "pip install" in result.stderr
    listed = run("--help").stdout
    assert "reproduce" not in listed and all(f" {name} " in listed for name in COMMANDS)
    assert run("reproduc").exit_code == 2


def test_names_of_methods_are_completed():
    for word, expected in (("ro", "robust"), ("random,ro", "random,robust")):
        option = "--methods" if "," in word else "-m"
        command = "compare" if "," in word else "select"
        words = f"gmmatch {command} x.npy {option} {word}"
        env = {"_GMMATCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
        result = CliRunner().invoke(build_app(), prog_name="gmmatch", env=env)
        assert result.stdout.split() == [expected]


def test_the_list_of_commands_has_whole_sentences():
    listed = run("--help").stdout.partition("Commands:\n")[2].splitlines()
    assert len(listed) >= len(COMMANDS)
    assert [line for line in listed if not line.endswith(".") or line.endswith("...")] == []


def test_methods_are_described_without_markup():
    assert "``" not in run("methods").stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_whole_sentences_and_no_markup(name):
    text = run(name, "--help", env={"COLUMNS": "80"}).stdout
    assert "``" not in text and ":class:" not in text and ":func:" not in text and "..." not in text


def test_ctrl_c_while_the_command_line_is_loaded_is_one_line():
    code = (
        "import sys\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *more):\n"
        "        if name == 'typer': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Pressed())\n"
        "from gmmatch.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")
