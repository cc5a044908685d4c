"""Schedules with two streams: what runs beside what, and what waits."""

from __future__ import annotations

import pytest

from tests.toast.aot.texts import module
from toast.aot.collective_time import CollectiveClock
from toast.aot.collectives import find_collectives
from toast.aot.compile import totals
from toast.aot.cycles import cycles_by_category
from toast.aot.hlo import HloModule, parse
from toast.aot.makespan import makespan
from toast.costmodel.hardware.devices import find
from toast.costmodel.network.mesh import Mesh

CLOCK, MESH = 1e9, Mesh.parse("x=4")
NETWORK = CollectiveClock.of(MESH, find("tpu-v5e"))
SENT = NETWORK.one("all_gather", ("x",), 4, 4 * 2**20)
GROUPS = 'replica_groups={{0,1,2,3}}, dimensions={0}, backend_config={"x":1}'


def work(name: str, cycles: float, operand: str = "a") -> str:
    return (
        f"%{name} = f32[8]{{0}} fusion(%{operand}), kind=kLoop, calls=%body, "
        f'backend_config={{"estimated_cycles":"{int(cycles)}"}}'
    )


def program(*lines: str, before: str = "") -> HloModule:
    rows = "\n".join(f"  {line}" for line in lines)
    return parse(
        f"""HloModule test, is_scheduled=true

%body (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  ROOT %n = f32[8]{{0}} negate(%p)
}}
{before}
ENTRY %main (a: f32[8], big: f32[262144]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  %big = f32[262144]{{0}} parameter(1)
{rows}
}}
"""
    )


def times(found: HloModule) -> tuple[float, float]:
    """Seconds one after the other, and with two streams."""
    rows = totals(find_collectives(found, MESH))
    compute = sum(cycles_by_category(found).values()) / CLOCK
    total = compute + sum(map(NETWORK.seconds, rows))
    return total, makespan(found, MESH, NETWORK, CLOCK, rows)


START = f"%s = (f32[262144], f32[1048576]) all-gather-start(%big), {GROUPS}"
DONE = "%d = f32[1048576]{0} all-gather-done(%s)"
END = "ROOT %r = f32[8]{0} negate(%a)"


def test_what_is_waited_for_at_once_adds_up() -> None:
    gather = f"%g = f32[1048576]{{0}} all-gather(%big), {GROUPS}"
    total, walked = times(program(work("w", 5e4), gather, work("v", 2e4), END))
    assert total == pytest.approx(7e-5 + SENT)
    assert walked == pytest.approx(total)


@pytest.mark.parametrize("part", [0.25, 3.0])
def test_an_asynchronous_collective_hides_behind_what_runs_until_it_is_waited_for(
    part: float,
) -> None:
    beside = part * SENT
    total, walked = times(
        program(work("w", 5e4), START, work("v", beside * CLOCK), DONE, work("u", 1e4), END)
    )
    assert total == pytest.approx(6e-5 + beside + SENT, rel=1e-4)
    assert walked == pytest.approx(6e-5 + max(beside, SENT), rel=1e-4)


def test_two_collectives_share_one_network() -> None:
    second = START.replace("%s =", "%s2 =")
    done = DONE.replace("%d =", "%d2 =").replace("(%s)", "(%s2)")
    _, walked = times(program(START, second, work("v", 1e4), DONE, done, END))
    assert walked == pytest.approx(2 * SENT)


def test_a_loop_runs_as_often_as_it_does() -> None:
    body = f"""
%step (t: (f32[8], f32[262144])) -> (f32[8], f32[262144]) {{
  %t = (f32[8], f32[262144]) parameter(0)
  %a = f32[8]{{0}} get-tuple-element(%t), index=0
  %big = f32[262144]{{0}} get-tuple-element(%t), index=1
  {START}
  {work("v", SENT * CLOCK / 2)}
  {DONE}
  ROOT %o = (f32[8], f32[262144]) tuple(%v, %big)
}}
%more (t: (f32[8], f32[262144])) -> pred[] {{
  %t = (f32[8], f32[262144]) parameter(0)
  ROOT %c = pred[] constant(true)
}}
"""
    loop = (
        "%l = (f32[8], f32[262144]) while(%i), condition=%more, body=%step, "
        'backend_config={"known_trip_count":{"n":"5"}}'
    )
    start = "%i = (f32[8], f32[262144]) tuple(%a, %big)"
    total, walked = times(program(start, loop, END, before=body))
    assert total == pytest.approx(5 * 1.5 * SENT, rel=1e-4)
    assert walked == pytest.approx(5 * SENT, rel=1e-4)


def piece(flag: int) -> str:
    return GROUPS.replace('"x":1', f'"async_collective_fusion_config":{{"flag_start":"{flag}"}}')


FIRST, LATER = piece(-1), piece(2)
PIECES = f"""
%begin (p: f32[262144]) -> (f32[262144], f32[1048576]) {{
  %p = f32[262144]{{0}} parameter(0)
  %ag = f32[1048576]{{0}} all-gather(%p), {FIRST}
  ROOT %cc = (f32[262144], f32[1048576]) custom-call(%ag), custom_call_target="AsyncCollectiveStart"
}}
%middle (p: f32[262144]) -> (f32[8], f32[1048576]) {{
  %p = f32[262144]{{0}} parameter(0)
  %ag = f32[1048576]{{0}} all-gather(%p), {LATER}
  ROOT %cc = (f32[8], f32[1048576]) custom-call(%ag), custom_call_target="Other"
}}
%finish (p: f32[1048576]) -> f32[1048576] {{
  %p = f32[1048576]{{0}} parameter(0)
  %ag = f32[1048576]{{0}} all-gather(%p), {LATER}
  ROOT %cc = f32[1048576]{{0}} custom-call(%ag), custom_call_target="AsyncCollectiveDone"
}}
"""


def test_a_collective_cut_over_several_fusions_runs_beside_the_one_between() -> None:
    long = f'backend_config={{"estimated_cycles":"{int(SENT * CLOCK * 4)}"}}'
    lines = (
        "%s = (f32[262144], f32[1048576]) fusion(%big), kind=kCustom, calls=%begin",
        "%e = f32[262144]{0} get-tuple-element(%s), index=0",
        f"%f = (f32[8], f32[1048576]) fusion(%e), kind=kCustom, calls=%middle, {long}",
        "%h = f32[1048576]{0} get-tuple-element(%f), index=1",
        "%d = f32[1048576]{0} fusion(%h), kind=kCustom, calls=%finish",
        END,
    )
    total, walked = times(program(*lines, before=PIECES))
    assert total == pytest.approx(5 * SENT, rel=1e-4)
    assert walked == pytest.approx(4 * SENT, rel=1e-4)


def test_what_nothing_runs_beside_is_waited_for_in_full() -> None:
    lines = (
        "%s = (f32[262144], f32[1048576]) fusion(%big), kind=kCustom, calls=%begin",
        "%e = f32[1048576]{0} get-tuple-element(%s), index=1",
        "%d = f32[1048576]{0} fusion(%e), kind=kCustom, calls=%finish",
        work("v", 3e4),
        END,
    )
    _, walked = times(program(*lines, before=PIECES))
    assert walked == pytest.approx(SENT + 3e-5, rel=1e-4)


@pytest.mark.parametrize("name", ["loop", "pieces", "together"])
def test_two_streams_never_take_longer_than_one(name: str) -> None:
    mesh = Mesh.parse("data=2,model=4")
    network = CollectiveClock.of(mesh, find("tpu-v5e"))
    found = module(name)
    rows = totals(find_collectives(found, mesh))
    compute = sum(cycles_by_category(found).values()) / CLOCK
    communication = sum(map(network.seconds, rows))
    walked = makespan(found, mesh, network, CLOCK, rows)
    assert max(compute, communication) * (1 - 1e-9) <= walked
    assert walked <= (compute + communication) * (1 + 1e-9)
