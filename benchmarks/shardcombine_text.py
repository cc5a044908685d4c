"""The page that `benchmarks.shardcombine` fills in."""

from __future__ import annotations

PAGE = """\
# ShardCombine

Shardy knows how most ops of StableHLO can be split. For an op that it does not know, the analysis
finds out: `analysis/shardcombine` runs a copy of the op with XLA on the CPU, at small sizes, whole
and in two shards, and looks for a combine that makes the local results into the global one
(MetaDist, section 3.3 and appendix A.3). What is found becomes a sharding rule and is kept in
`~/.cache/toast/shardcombine` (`$XDG_CACHE_HOME` moves it).

- Combines: gather; gather with a halo, negative (rows next to the seam are dropped) or positive
  (rows that overlap are added up); gather in blocks; reduce with sum, max, min or mean. A reduce
  may follow a halo: the gradient of a convolution's filter is such a sum.
- A factor is *parallel* when results are gathered, *reduction* when they are reduced, *halo* when
  rows of a neighbour are needed or dropped, and *blocked* when nothing fits, or only blocks do.
- Ops run in a child process with a time limit. If it aborts or is late, the op has no rule and that
  is remembered. Random ops, collectives, control flow, ops with side effects and custom calls are
  never run.
- `chlo.ragged_dot` cannot be run by XLA's CPU backend; its rule is written down from its dimension
  numbers.

Everything below was written by `python -m benchmarks.shardcombine -o docs/shardcombine.md`.

## Agreement and time

Every distinct op (kind, attributes, types) of a training step. Two rules agree when the same
dimensions can be split together and mean the same kind of factor; factors of size 1, and those that
nobody can split (minor ones in a compound dimension, replicated ones), are left out of the
comparison.

| program | ops | distinct | agree | only ours | empty cache | of that CPU | on disk | in memory |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{summary}

"Distinct" leaves out what is never run (constants and the like); "only ours" are ops without a
rule in Shardy. Times are for all distinct ops of a row, the start of the child process included.
Measured with {versions},
load {load:.1f} when the measurement began: where others use the machine, the processor time of the
child is the better guide.

The paper measured its implementation on a GPU server (section 4): "With the cache mechanism,
PyTorch can complete annotation in seconds and Jax can also complete annotation in minutes." The
machines differ, and so does the work: here an op runs at small sizes on a CPU.

## By kind of op

| op | agree | differ | no rule in Shardy |
| --- | ---: | ---: | ---: |
{kinds}

## Differences

| program | op | ops | reason |
| --- | --- | ---: | --- |
{differences}

{reasons}

## What to know about a discovered rule

- It is evidence, not proof: three sets of inputs, two shards, small sizes.
- Operands that an op accumulates into (the initial value of a `reduce`, the operand of a `scatter`)
  start as the identity of the op's body, so a sum over shards counts them once. A program that
  scatters into other values and splits the updates has to see to that.
- An op whose attributes fix its sizes is run as it is if it is small, and has no rule if not.
- The halo that is found is the one at the small sizes; the rule says only that there is one.
"""
