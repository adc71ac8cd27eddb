"""The examples for Airflow and Dagster: what each exit code becomes, on stand-ins for the two and on the real ones."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "nightly"
RESULT = {"event": "result", "metrics": {"rows": 5, "mean_answer_risk": None}, "quality_gates": [{"failed": True}]}


def loaded(name: str) -> ModuleType:
    """The example as a module."""
    module = ModuleType("example")
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    exec(compile(source, name, "exec", dont_inherit=True), module.__dict__)
    return module


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[list[str]]]:
    """Lets ``attribeam`` end with a code, and notes the commands and days that it was given."""

    def with_code(code: int) -> list[list[str]]:
        calls: list[list[str]] = []

        def run(command: list[str], *, env: dict[str, str], **_: object) -> subprocess.CompletedProcess[str]:
            calls.append([env["AUDIT_DAY"], *command])
            return subprocess.CompletedProcess(command, code, stdout=json.dumps(RESULT))

        monkeypatch.setattr(subprocess, "run", run)
        return calls

    return with_code


class FailError(Exception):
    """Stands in for the orchestrators' way to say that another attempt is of no use."""

    def __init__(self, *_: object, allow_retries: bool = False) -> None:
        super().__init__(*_)
        self.allow_retries = allow_retries


class Task:
    """A task of the stand-in for Airflow; ``log`` notes what comes after what."""

    def __init__(self, function: Callable[..., None], log: list[str]) -> None:
        self.name, self._log = function.__name__, log

    def __call__(self, *_: object) -> Task:
        return self

    def as_teardown(self) -> Task:
        self._log.append(f"{self.name} is a teardown")
        return self

    def __rshift__(self, other: Task) -> Task:
        self._log.append(f"{self.name} before {other.name}")
        return other


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stand-in for Airflow; the order of the tasks."""
    order: list[str] = []

    def task(function: Callable[..., None] | None = None, **_: object) -> Any:
        return task if function is None else Task(function, order)

    sdk = SimpleNamespace(dag=lambda **_: lambda function: function, task=task)
    for name, module in (("airflow", ModuleType("airflow")), ("airflow.sdk", sdk)):
        monkeypatch.setitem(sys.modules, name, module)  # type: ignore[arg-type]
    exceptions = SimpleNamespace(AirflowFailException=FailError)
    monkeypatch.setitem(sys.modules, "airflow.sdk.exceptions", exceptions)  # type: ignore[arg-type]
    return order


@pytest.mark.usefixtures("airflow")
@pytest.mark.parametrize(
    ("code", "error"), [(0, None), (1, subprocess.CalledProcessError), (2, FailError), (3, FailError)]
)
def test_airflow_tries_again_only_where_that_may_help(
    code: int, error: type[Exception] | None, ended: Callable[[int], list[list[str]]]
) -> None:
    calls = ended(code)
    example = loaded("airflow_dag.py")
    if error is None:
        example.attribeam("audit", day="2026-11-21")
    else:
        with pytest.raises(error):
            example.attribeam("audit", day="2026-11-21")
    assert calls == [["2026-11-21", "attribeam", "audit"]]


def test_a_failed_audit_fails_the_run_in_airflow_though_the_history_comes_after_it(airflow: list[str]) -> None:
    """The state of a run is that of its last tasks, without teardowns."""
    loaded("airflow_dag.py")
    assert airflow == ["history is a teardown", "audit before history"]


@pytest.fixture
def dagster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for Dagster, whose asset is the function and whose results are their arguments."""
    names = ("DailyPartitionsDefinition", "AssetCheckResult", "MaterializeResult", "RetryPolicy", "Definitions")
    same = {name: lambda *_, **given: SimpleNamespace(**given) for name in names}
    module = SimpleNamespace(
        **same,
        AssetCheckSpec=lambda name, **_: SimpleNamespace(name=name),
        Failure=FailError,
        AssetExecutionContext=SimpleNamespace,
        asset=lambda **_: lambda function: function,
        define_asset_job=lambda *_, **__: None,
        build_schedule_from_partitioned_job=lambda *_, **__: None,
    )
    monkeypatch.setitem(sys.modules, "dagster", module)  # type: ignore[arg-type]


@pytest.mark.usefixtures("dagster")
@pytest.mark.parametrize(("code", "passed"), [(0, True), (3, False)])
def test_dagster_has_the_gates_as_a_check_of_the_asset(
    code: int, passed: bool, ended: Callable[[int], list[list[str]]]
) -> None:
    calls = ended(code)
    made = loaded("dagster_definitions.py").rag_audit(SimpleNamespace(partition_key="2026-11-21"))
    (check,) = made.check_results
    assert (check.check_name, check.passed, made.metadata) == ("quality_gates", passed, {"rows": 5})
    assert calls == [["2026-11-21", "attribeam", "audit", "--config", "audit.toml", "--console", "json"]]


@pytest.mark.usefixtures("dagster")
@pytest.mark.parametrize(("code", "again"), [(1, True), (2, False)])
def test_dagster_tries_again_only_where_that_may_help(
    code: int, again: bool, ended: Callable[[int], list[list[str]]]
) -> None:
    ended(code)
    with pytest.raises(FailError) as failure:
        loaded("dagster_definitions.py").rag_audit(SimpleNamespace(partition_key="2026-11-21"))
    assert failure.value.allow_retries is again


@pytest.mark.usefixtures("dagster")
def test_dagster_gets_the_type_of_its_context_and_not_its_name() -> None:
    """It refuses a file with ``from __future__ import annotations``."""
    asset = loaded("dagster_definitions.py").rag_audit
    assert not isinstance(asset.__annotations__["context"], str)


def test_dagster_loads_its_definitions() -> None:
    dg = pytest.importorskip("dagster", reason="dagster is not installed")
    definitions = loaded("dagster_definitions.py").definitions
    assert isinstance(definitions, dg.Definitions)
    assert [job.name for job in definitions.jobs] == ["nightly_audit"]


def test_airflow_loads_its_dag() -> None:
    pytest.importorskip("airflow.sdk", reason="apache-airflow is not installed")
    dag = loaded("airflow_dag.py").rag_audit()
    history = dag.get_task("history")
    assert (history.is_teardown, history.upstream_task_ids) == (True, {"audit"})
