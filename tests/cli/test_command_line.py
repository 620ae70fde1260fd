"""The command line as a whole: how commands are found and explained, and how they end when something is wrong."""

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

import gmmatch
from gmmatch.cli import COMMANDS, build_app
from gmmatch.cli.io.group import CommandFiles, CommandGroup
from gmmatch.errors import FarRowWarning, InvalidInputError

FOLDER = Path(gmmatch.__file__).parent / "cli"


def run(*arguments: str, app: typer.Typer | None = None, env: dict[str, str] | None = None):
    return CliRunner().invoke(app or build_app(), arguments, env=env or {})


@pytest.fixture
def run_work(monkeypatch):
    """Run a command line whose only command, ``work``, does what the test says, or raises it."""

    def run_app(work, *options: str, **env: str):
        def command(k: int = 1) -> None:
            """Do the work."""
            if isinstance(work, BaseException):
                raise work
            work()

        module = types.ModuleType("made_up.work")
        module.work = command
        monkeypatch.setitem(sys.modules, "made_up", types.ModuleType("made_up"))
        monkeypatch.setitem(sys.modules, "made_up.work", module)
        app = typer.Typer(cls=CommandGroup.of("made_up", ["work"]), pretty_exceptions_enable=False)
        app.callback()(sys.modules["gmmatch.cli"].options)
        return run(*options, "work", app=app, env=env)

    return run_app


def test_every_file_is_a_command_and_every_command_a_file():
    files = {path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if path.stem != "__init__"}
    assert set(COMMANDS) == files


def test_help_lists_every_command_with_a_whole_sentence():
    listed = run("--help").stdout.partition("Commands:\n")[2].splitlines()
    for name in COMMANDS:
        line = next(line for line in listed if line.startswith(f"  {name} "))
        assert len(line.split()) > 4 and line.endswith(".") and not line.endswith("...")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help_under_a_heading(name):
    command = CommandFiles("gmmatch.cli", COMMANDS)[name]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    assert all(one.help for one in command.params)
    assert {one.rich_help_panel for one in options} <= {"Input", "Selection", "Encoder", "Output", "Running"}
    text = run(name, "--help", env={"COLUMNS": "80"}).stdout
    assert all(f"\n{one.rich_help_panel}:\n" in text for one in options)
    assert "``" not in text and ":class:" not in text and ":func:" not in text


def test_version_is_the_package_version():
    assert run("--version").stdout == f"gmmatch {gmmatch.__version__}\n"


def test_the_installed_script_is_main():
    (script,) = entry_points(group="console_scripts", name="gmmatch")
    assert script.value == "gmmatch.__main__:main"


def test_an_unknown_command_is_an_error_with_the_nearest_name():
    result = run("metods")
    assert result.exit_code == 2 and "'methods'" in result.stderr


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (
            InvalidInputError("k=0: expected\n  at least 1 row of X."),
            2,
            "Error: --k 0: expected at least 1 row of the input.",
        ),
        (PermissionError(13, "Permission denied", "x.npy"), 2, "Error: x.npy: Permission denied."),
        (KeyboardInterrupt(), 130, "Interrupted."),
    ],
)
def test_errors_are_one_line_in_the_words_of_the_terminal(run_work, error, code, line):
    result = run_work(error)
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"{line}\n")


def test_developers_get_the_error_itself_and_everybody_a_bug(run_work):
    error, bug = InvalidInputError("k=0"), ZeroDivisionError()
    assert run_work(error, "--traceback").exception is error
    assert run_work(error, GMMATCH_TRACEBACK="1").exception is error
    assert run_work(bug).exception is bug


def test_our_warnings_are_one_line_on_stderr_without_a_place_in_the_source(run_work):
    def work():
        warnings.simplefilter("always")
        warnings.warn("Row 3 of X is far from the others.", FarRowWarning, stacklevel=1)

    before = warnings.showwarning
    result = run_work(work)
    assert result.exit_code == 0
    assert result.stderr == "Warning: Row 3 of the input is far from the others.\n"
    assert warnings.showwarning is before


def test_methods_are_listed_with_a_summary(succeeds):
    listed = succeeds("methods", "--json")
    assert [method["name"] for method in listed] == list(gmmatch.methods())
    text = " ".join(succeeds("methods").split())
    for method in listed:
        default = " The default." if method["name"] == "robust" else ""
        assert method["summary"].endswith(".") and "``" not in method["summary"]
        assert f"{method['name']} {method['summary']}{default}" in text


def test_the_settings_of_a_method_are_listed(succeeds, refused):
    settings = succeeds("methods", "gm-matching", "--json")["settings"]
    assert settings["target"] == "geometric-median" and settings["target.eps"] == 1e-8
    assert not {"k", "per_class", "random_state"} & set(settings)
    assert "target.max_iter" in succeeds("methods", "gm-matching")
    line = refused("methods", "gm-maching")
    assert line.startswith("Error: 'gm-maching': no such method") and "Did you mean 'gm-matching'" in line


def test_commands_of_other_distributions_are_found_through_their_entry_points():
    added = {point.name: point.value for point in entry_points(group="gmmatch.commands")}
    help_text = run("--help").stdout
    assert {"corrupt", "reproduce"} <= set(added)
    assert all(f" {name} " in help_text for name in added)


def test_a_command_that_cannot_be_loaded_does_not_break_the_help_of_all(monkeypatch):
    class Point:
        name, value = "broken", "nowhere:command"

        def load(self):
            raise ImportError("No module named 'nowhere'")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Point()])
    assert " broken " in run("--help").stdout
    assert "No module named 'nowhere'" in run("broken").stderr


def test_without_the_paper_one_line_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: ())
    for name in ("corrupt", "reproduce"):
        result = run(name, "--anything")
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
        assert f"gmmatch {name}" in result.stderr and "pip install" in result.stderr
    assert "reproduce" not in run("--help").stdout


def test_a_closed_pipe_ends_a_command_quietly(vectors):
    command = f"{sys.executable} -m gmmatch methods --json | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[\n", "")


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


def test_json_is_not_mixed_with_what_is_said(vectors, tmp_path, gmmatch):
    result = gmmatch("select", vectors, "-k", 3, "-m", "easy", "-o", tmp_path / "p.parquet", "--json")
    assert json.loads(result.stdout)["k"] == 3 and result.stderr == ""
