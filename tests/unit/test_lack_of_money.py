"""Tasks that wait for money go on when there is some, and never again and again for nothing."""

from artel.budgets.repository import Budget
from artel.contract.parked_run import ParkedRun
from artel.plans.plan import TaskStatus, WorkflowTask
from artel.plans.task_run import LackOfMoney


def waits(name: str, needs: int | None) -> WorkflowTask:
    parked = ParkedRun(needs_micros=needs)
    status = TaskStatus.WAITING
    nothing = {"estimate": None, "usage": None, "cost_micros": None, "result": None, "error_code": None, "error": None}
    return WorkflowTask(
        "w",
        name,
        1,
        0,
        1,
        "agent_coder",
        "",
        [],
        status,
        1,
        **nothing,
        parked=parked,
        started_at=None,
        finished_at=None,
    )


def budget(limit: int, spent: int, reserved: int = 0) -> Budget:
    return Budget("b", 1, "plan", "w", limit, spent, reserved)


def test_tasks_resume_while_budget_is_enough() -> None:
    a, b, c = waits("a", 60), waits("b", 60), waits("c", 30)

    assert LackOfMoney().enough_for([a, b, c], budget(100, 5), 0) == [a, c]
    assert LackOfMoney().enough_for([a, b, c], budget(100, 5, 60), 0) == [c]


def test_task_with_unknown_cost_resumes_unless_budget_is_spent() -> None:
    task = waits("a", None)

    assert LackOfMoney().enough_for([task], budget(100, 100), 0) == [task]
    assert LackOfMoney().enough_for([task], budget(100, 101), 0) == []


def test_task_without_budget_is_not_retried_until_something_changes() -> None:
    lack, task = LackOfMoney(), waits("a", 10)

    assert lack.enough_for([task], budget(100, 5), 0) == [task]
    assert lack.enough_for([task], budget(100, 5), 0) == []
    assert lack.enough_for([task], budget(100, 6), 0) == [task]
    assert lack.enough_for([task], budget(100, 6), 1) == [task]
    assert lack.enough_for([task], budget(200, 6), 1) == [task]
    assert lack.enough_for([task], budget(200, 6), 1) == []
