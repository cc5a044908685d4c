"""The search tree as arrays, and the kernel that grows it.

The order of the functions is the algorithm: select, expand, simulate, back up. Nodes are states;
a state reached by two orders of actions is one node (a hash of the layout finds it). All threads
share the arrays without locks: a lost update costs a visit count, which may even fall below zero
and is read as zero then, but never memory safety, because each thread takes new nodes from a range
of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toast.analysis.jit import entry, inner
from toast.analysis.program import Floats, Ints
from toast.analysis.records import record
from toast.costmodel.state_kernels import layout_key, price, reset, shard, step_seconds
from toast.search.peak_buckets import PeakBuckets, keep

if TYPE_CHECKING:
    from toast.costmodel.tables import Scratch, Tables

SELECTIONS = ("puct", "ucb1")
SHAPINGS = ("log", "inverse")
UNTRIED = 0
"""No child yet: a child is held as its number and one, so that fresh memory says this."""
DEAD = -1
"""The action changes nothing here, or it is a stop, which costs what the node itself costs."""
PUCT, LOG = SELECTIONS.index("puct"), SHAPINGS.index("log")
TINY = 1e-12
"""Below any C(s) of a program that has work."""
MAX_DEPTH = 128
PROBES = 64


@record
class Tree(NamedTuple):
    """Nodes: `visits`, `total` and `best` of the rewards below, `children` [node, action + stop].

    A child is the number of its node and one, `UNTRIED` or `DEAD`; the last column is stop.
    `slot_key` and `slot_node` are the transposition table. `group`, `axis`, `bits` and `prior`
    describe the actions.
    """

    visits: Ints
    total: Floats
    best: Floats
    children: NDArray[np.int32]
    slot_key: Ints
    slot_node: NDArray[np.int32]
    group: Ints
    axis: Ints
    bits: Ints
    prior: Floats


@record
class Agent(NamedTuple):
    """What one thread owns: its random state, its range of nodes, and the best it has found.

    `nodes` is [next, end); `best_cost` and `best_peak` [1]; `best_path` action numbers,
    `best_length` [1]; `counts` is [rollouts, evaluations]; `buckets` the fastest state of each
    bucket of the peak.
    """

    random: NDArray[np.uint64]
    nodes: Ints
    best_cost: Floats
    best_peak: Floats
    best_path: Ints
    best_length: Ints
    counts: Ints
    path: Ints
    trail: Ints
    buckets: PeakBuckets


@record
class Rules(NamedTuple):
    """Numbers of the search: reward and settings, as the kernel reads them.

    `selection` and `shaping` are positions in `SELECTIONS` and `SHAPINGS`; `whole` is the log of
    C(s) of the unsharded program and `span` what a perfect division of its work takes off that.
    """

    initial_seconds: float
    initial_peak: float
    memory: float
    penalty: float
    overlap: float
    whole: float
    span: float
    selection: int
    shaping: int
    exploration: float
    virtual_loss: int
    stop_chance: float
    discount: float
    max_share: float
    depth: int


@inner
def _uniform(agent: Agent) -> float:
    """The next number in [0, 1) of the thread's xorshift generator."""
    x = agent.random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    agent.random[0] = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@inner
def _remember(agent: Agent, cost: float, peak: float, length: int) -> None:
    if cost < agent.best_cost[0] * (1.0 - 1e-9):
        agent.best_cost[0] = cost
        agent.best_peak[0] = peak
        agent.best_length[0] = length
        for k in range(length):
            agent.best_path[k] = agent.path[k]


@inner
def _cost(t: Tables, s: Scratch, rules: Rules, agent: Agent, length: int) -> float:
    """C(s) of the layout in the scratch arrays (TOAST section 4.5), `length` actions of the path.

    It is remembered where it is the best so far, and where it is on the front.
    """
    compute, communication, peak = price(t, s)
    agent.counts[1] += 1
    over = max(0.0, peak - rules.memory)
    seconds = step_seconds(compute, communication, rules.overlap)
    keep(agent.buckets, seconds, peak, agent.path, length)
    cost = seconds / rules.initial_seconds + rules.penalty * over / rules.initial_peak
    _remember(agent, cost, peak, length)
    return cost


@entry
def reward_of(rules: Rules, cost: float, length: int) -> float:
    """What is backed up for a state of cost C(s) after `length` actions, higher is better.

    `log`: 0 for the unsharded program or worse, 1 for a perfect division of its work, and equal
    steps for equal ratios of cost; `inverse`: 1 / (1 + C). Both favour short trajectories.
    """
    if rules.shaping == LOG:
        shaped = np.log(max(cost, TINY)) - length * np.log(rules.discount)
        return max(0.0, rules.whole - shaped) / rules.span
    return rules.discount**length / (1.0 + cost)


@inner
def _find(tree: Tree, agent: Agent, key: int) -> int:
    """The node of a layout, made where there is none; -1 when the tree is full."""
    slots = len(tree.slot_key)
    slot = key % slots
    for _ in range(PROBES):
        node = tree.slot_node[slot]
        if node >= 0 and tree.slot_key[slot] == key:
            return node
        if node < 0:
            if agent.nodes[0] >= agent.nodes[1]:
                return -1
            fresh = agent.nodes[0]
            agent.nodes[0] += 1
            tree.slot_key[slot] = key
            tree.slot_node[slot] = fresh
            return fresh
        slot = (slot + 1) % slots
    return -1


@inner
def _select(tree: Tree, rules: Rules, node: int) -> int:
    """The action with the highest upper bound; the stop column counts as an action.

    PUCT spreads the exploration by the prior, UCB1 gives each action the same.
    """
    actions = tree.children.shape[1]
    visits = max(tree.visits[node], 0) + 1
    mean = tree.total[node] / max(visits - 1, 1)
    puct = rules.selection == PUCT
    root = np.sqrt(float(visits)) if puct else np.sqrt(np.log(float(visits)))
    highest, chosen = -1e30, actions - 1
    for action in range(actions):
        child = tree.children[node, action]
        if child == DEAD:
            continue
        value, seen = mean, 0
        if child != UNTRIED:
            seen = max(tree.visits[child - 1], 0)
            if seen > 0:
                average = tree.total[child - 1] / seen
                best = tree.best[child - 1]
                value = (1.0 - rules.max_share) * average + rules.max_share * best
        spread = tree.prior[action] / (1 + seen) if puct else 1.0 / np.sqrt(1.0 + seen)
        bound = value + rules.exploration * spread * root
        if bound > highest:
            highest, chosen = bound, action
    return chosen


@inner
def _simulate(t: Tables, s: Scratch, tree: Tree, rules: Rules, agent: Agent, length: int) -> int:
    """A random trajectory from the layout in `s`; returns its length."""
    actions = len(tree.group)
    while length < rules.depth:
        if _uniform(agent) < rules.stop_chance:
            break
        target = _uniform(agent)
        chosen = actions - 1
        for action in range(actions):
            target -= tree.prior[action]
            if target < 0.0:
                chosen = action
                break
        if shard(t, s, tree.group[chosen], tree.axis[chosen], tree.bits[chosen]) > 0:
            agent.path[length] = chosen
            length += 1
    return length


@inner
def _back_up(tree: Tree, rules: Rules, agent: Agent, depth: int, reward: float) -> None:
    for k in range(depth):
        node = agent.trail[k]
        tree.visits[node] += 1 - rules.virtual_loss
        tree.total[node] += reward
        tree.best[node] = max(tree.best[node], reward)


@inner
def _begin(t: Tables, s: Scratch, tree: Tree, agent: Agent, prefix: Ints, start: int) -> None:
    """Lay out the state that the first `start` actions of `prefix` make."""
    reset(t, s)
    for k in range(start):
        action = prefix[k]
        agent.path[k] = action
        shard(t, s, tree.group[action], tree.axis[action], tree.bits[action])


@inner
def _rollout(
    t: Tables,
    s: Scratch,
    tree: Tree,
    rules: Rules,
    agent: Agent,
    prefix: Ints,
    start: int,
    root: int,
) -> None:
    _begin(t, s, tree, agent, prefix, start)
    stop = tree.children.shape[1] - 1
    node, length, depth = root, start, 0
    expanded = False
    while not expanded and length < rules.depth:
        agent.trail[depth] = node
        depth += 1
        tree.visits[node] += rules.virtual_loss
        action = _select(tree, rules, node)
        if action == stop:
            tree.children[node, stop] = DEAD
            break
        if shard(t, s, tree.group[action], tree.axis[action], tree.bits[action]) == 0:
            tree.children[node, action] = DEAD
            tree.visits[node] -= rules.virtual_loss
            depth -= 1
            continue
        agent.path[length] = action
        length += 1
        child = tree.children[node, action] - 1
        if child < 0:
            child = _find(tree, agent, layout_key(s))
            expanded = True
            if child < 0:
                break
            tree.children[node, action] = child + 1
            tree.children[child, stop] = DEAD
        node = child
    if expanded and node != agent.trail[depth - 1]:
        agent.trail[depth] = node
        depth += 1
        tree.visits[node] += rules.virtual_loss
    _score(t, s, tree, rules, agent, length, depth, expanded)


@inner
def _score(
    t: Tables,
    s: Scratch,
    tree: Tree,
    rules: Rules,
    agent: Agent,
    length: int,
    depth: int,
    simulate: bool,
) -> None:
    """Price the state reached and, from a new node, the end of a random trajectory."""
    cost = _cost(t, s, rules, agent, length)
    reward = reward_of(rules, cost, length)
    if simulate:
        final = _simulate(t, s, tree, rules, agent, length)
        if final > length:
            cost = _cost(t, s, rules, agent, final)
            reward = max(reward, reward_of(rules, cost, final))
    agent.counts[0] += 1
    _back_up(tree, rules, agent, depth, reward)


@entry
def grow(
    t: Tables,
    s: Scratch,
    tree: Tree,
    rules: Rules,
    agent: Agent,
    prefix: Ints,
    start: int,
    rollouts: int,
) -> None:
    """Run `rollouts` rollouts from the state that the first `start` actions of `prefix` make."""
    _begin(t, s, tree, agent, prefix, start)
    root = _find(tree, agent, layout_key(s))
    if root < 0:
        return
    for _ in range(rollouts):
        _rollout(t, s, tree, rules, agent, prefix, start, root)
