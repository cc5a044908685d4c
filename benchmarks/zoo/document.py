"""The page `docs/zoo.md`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.accuracy.records import Record, read_records
from benchmarks.accuracy.statistics import needed_bytes
from benchmarks.accuracy.summary import by
from benchmarks.accuracy.tables import table
from benchmarks.zoo.cases import AMPLE, LEVELS
from benchmarks.zoo.lowering import PROGRAMS
from benchmarks.zoo.split import HELD_OUT_PERCENT
from benchmarks.zoo.summary import ROOMY, TINY, by_word, kind_of
from benchmarks.zoo.tables import MEMORY, brief_table, page_table

SIZES = {"under 256 MiB": 0, "from 256 MiB": 2**28, "from 1 GiB": 2**30, "from 2 GiB": 2**31}
"""Groups of programs by the bytes that the compiler lays out, at least so many."""

TRAIN, UNTRAINED = "train", "all but train"
PAGE = f"""\
# Programs of public libraries

Made by `python -m benchmarks.zoo write`. The programs are models of public libraries as their users
write them, lowered without weights: training steps with the optimizers of optax, inference, prompts
and single tokens against a cache, in f32 and bf16. Most have one to three layers at published
widths; those named `deep` have all layers.

**Half of it nobody looks at.** A hash of its name assigns each architecture to the tuning half or,
{HELD_OUT_PERCENT} in 100, to the held-out half. Nobody looks into a held-out program to choose
a rule or a constant of the cost model. The sums over that half had a say in thirty-six things:

- Products of one row count as work of the vector unit in batches alone.
- Rules that do not pay on a held-out half were deleted ([ablation.md](ablation.md) names them).
- Of memory the holes between buffers are counted, which took that half's median from 9.1 to 8.2 %.
- What is concatenated is not taken to be stored before, as libtpu stores it: so priced, that half's
  mean error of memory with room would be 12.6 in place of 12.3 %, and of time the same.
- Products do not run inside the next one, as libtpu runs those of few columns (the probe
  `products_in_turn`): of the tuning half memory was nearer and step times were not. Held out both
  were farther off.
- Whatever fits into the memory on the chip may go through it. A limit of 64 MiB paid on both halves
  when it took the place of one of 28; none at all takes a point off what nine in ten are within.
- What an elementwise fusion makes for itself alone costs time as if it were written: without, that
  half's median error of a step's time is 9.0 % in place of 7.9.
- What several ops make of a product, which comes together again, is not taken to be stored there in
  place of the product: that half's median error of memory on TPUs would be 7.1 in place of 7.0 %.
- An image in blocks of pixels takes the time of two, and of four where it is normalised by example.
  With one and three that half's median error of a step's time is 8.3 in place of 8.1 %.
- What is added up is copied into rows, with one row for each example too, unless it was made in
  rows: that half's median error of a step's time is 6.5 in place of 6.9 %.
- Sums run beside the elementwise fusion that stores what they read. They do not run beside one that
  only reads the same: that half's mean error of a step's time would be 13.6 in place of 13.1 %.
- What is concatenated is not stored where a sum reads it as well: that error would be 13.3 %.
- An op that runs by itself is priced as a fusion is, but for a broadcast: priced longer, as probes
  have it, that half's mean error of a step's time would be 16.2 in place of 16.0 %.
- Ten constants were made one or deleted (how fast products start, operands are waited for,
  arguments are rounded and tables are turned): with them that half's mean error of a step's time
  was 13.1 in place of 12.8 %.
- Products keep their prices. Fitted anew on the tuning half, in four forms, they left that half's
  mean error of a step's time between 16.0 and 16.8 %, where it was 16.0.
- A pass over sums of several devices costs a launch, and its bytes only where these find no room on
  the chip: that error went from 15.8 to 15.7 %.
- Rows that were summed over devices have such a pass, too, though what reads them can make it
  inside: without it 12 of 32 step times that change were nearer, and 11 of 15 of the tuning half.
- Zeros to which rows are added have no price: with it that half's median error of a step's time was
  7.9 in place of 7.7 %.
- One program was predicted at fifty times its memory. Sums without parts of a rule told that it was
  rows that are looked up; probes of lookups that were written then told which law they follow.
- A fusion that reads rows that are looked up moves them as if they filled tiles, unless it adds
  them up: moved by rows, that half's mean error of a step's time would be 13.6 in place of 12.3 %.
- An image that a convolution reads is stored in 16 bits: in 32, which some are, that half's mean
  error of memory with room would be 12.8 in place of 12.0 %.
- What is computed again is not found in the order of the program, as XLA finds it: that half's
  median error of memory under pressure would be 17.2 in place of 14.6 %.
- A product that reads or writes main memory starts as late as any fusion. A probe says a seventh
  of that on a v5e, and so it is for all others: with it everywhere that half's mean error of a
  training step's time would be 12.4 in place of 12.3 %, and with it nowhere the mean of all steps
  16.3 in place of 16.4. The recurrent nets of a probe would then be priced at three to four times
  what they take.
- In inference images stay in blocks between convolutions, as probes say. If none did, that half's
  median error of an inference step's time would be 12.8 in place of 13.0 %, and the tuning half's
  9.3 in place of 9.2, but layers of a probe would be priced at two to five times what they take.
- Eight and more images have a price where they leave a chain of convolutions, and none where they
  enter it: with one for both that half's median would be 14.5 in place of 13.0 %.
- What is computed to feed a product of a batch has a price, as that of any other product has.
  Without it that half's median error of an inference step's time was 16.4 in place of 14.5 %, and
  the mean of a training step's 13.1 in place of 12.3 %. With four fifths and with half of it that
  mean would be 12.8 and 13.4 in place of 12.2 %.
- An f32 that is stored in 16 bits takes the time of rounding it, or of writing 32 bits where that
  is longer: with 16 that half's mean error of all steps would be 18.0 in place of 17.9 %.
- A pool is a pass of its own, beside which sums may run, but never beside a convolution: that
  half's median error of all steps but training is 10.0 in place of 12.0 %.
- Each update of a stack in a loop is launched by itself. libtpu makes those of an LSTM inside
  products: so priced, that half's mean error of a training step's time would be 13.6 in place of
  12.2 %. It makes others together, several in one pass: so priced, 13.2 in place of 12.3 %, though
  the gradients of a probe's recurrent nets would be 24 to 48 % too high in place of 56 to 100. Made
  inside what computes the rows of a loop's only stack: 16.6 in place of 16.3 % for all steps.
- What is pooled is stored in 32 bits: in 16, as libtpu stores it for maxima, that half's mean error
  of memory with room would be 12.4 in place of 12.3 %.
- In inference what a convolution makes takes the time of what is rounded only where it is stored
  in 16 bits: otherwise that half's mean error would be 17.5 in place of 17.6 %, but programs of no
  half would be farther off.
- Each fusion that reads a part of one value is a pass of its own. libtpu makes one pass of them: so
  priced, that half's mean error of all steps would be 16.5 in place of 16.4 %, and of memory 12.4
  in place of 12.3.
- Arguments that products in a loop read whole are not rounded before it, as libtpu does: so priced,
  that half's mean error of memory would be 12.4 in place of 12.3 %, and of time the same.
- What feeds a batch of products takes the same time from the chip and in 16 bits, though probes say
  less: so priced, that half's mean error of all steps would be 16.7 in place of 16.4 %.
- What feeds a product is computed once, not for each block of a wide result: so priced, that half's
  mean error of all steps would be 17.0 in place of 16.4 %, and nine in ten within 25.4 in place of
  29.0.
- Buffers stay on the chip for 8 times what filling all of its memory takes, though XLA's setting
  speaks of what is left to buffers: so priced, that half's mean error of memory would be 12.5 in
  place of 12.3 %, and of memory under pressure 23.1 in place of 22.8.

Both halves are printed side by side, and a gap between them says how much of the accuracy is
practice. Architectures are added from time to time; the hash of its name puts each into a half.

How a case is made:

- A case is a program on a mesh under a plan for a target. Plans are good (the tree search, as if a
  chip had {AMPLE:.0f} times its memory, so that no speed is given up for it), bad (data parallelism
  and nothing else, one other dimension over all axes) and drawn by lot.
- **With room** counts cases that need at most {ROOMY:.0%} of the chip, and by one of the two
  figures at least {TINY // 2**20} MiB: what is smaller stays in a TPU's vector memory.
- **Pressed** is the least that the compiler comes down to when it is told that most of the memory
  is taken, leaving {", ".join(f"{level:.0%}" for level in LEVELS)} of what its temporaries took.
- **Verdicts** are of programs that need half to twice the memory of a chip, most of them at batches
  chosen for that: fitting or not, against whether the compiler refuses. It refuses what needs more
  than all of the memory, and presses what needs more than 95 % of it. A plan aims at the 95 %; what
  is predicted to lie between counts as fitting here, and `plan.json` calls it `tight`.
- Wire, step time and ranks are as in [accuracy.md](accuracy.md). libtpu estimates no cycles for
  lookups of rows, sums of rows, sorts and gradients of pooled maxima, so compiled steps lack them.
  What is priced for them is left out of the comparison as well (`unestimated_seconds` of a record).
  Loops of lookups it does estimate. Steps of which it estimates nothing but copies do not count,
  nor those that run kernels, which it makes of some attention and gives no cycles.
- For a v5e steps of training are compiled whole under several plans, and all others under the
  searched plan. These were compiled by memory alone until the model had its rules for training, and
  it knows them less well: a table below says how well.
"""


def write_page(halves: Mapping[str, Sequence[Record]], docs: Path) -> list[Path]:
    """Write the page into `docs`; returns the files."""
    parts = [PAGE, f"## Both halves\n\n{page_table(halves)}\n"]
    parts.append(f"## By target\n\n{brief_table(grouped(halves, 'target'))}\n")
    kinds = worded(halves, kind_of) | {UNTRAINED: untrained(halves)}
    parts.append(f"## By what a program does\n\n{brief_table(kinds)}\n")
    parts.append(f"## By what is laid out with room\n\n{brief_table(by_memory(halves), MEMORY)}\n")
    parts.append(f"## By library\n\n{brief_table(worded(halves, library_of()))}\n")
    parts.append(f"## The programs\n\n{program_table()}\n")
    page = docs / "zoo.md"
    page.write_text("\n".join(parts))
    return [page]


def grouped(
    halves: Mapping[str, Sequence[Record]], field: str
) -> dict[str, dict[str, list[Record]]]:
    """Cases by a field, and in it by half."""
    return _turned({half: by(list(rows), field) for half, rows in halves.items()})


def worded(
    halves: Mapping[str, Sequence[Record]], word: Callable[[str], str]
) -> dict[str, dict[str, list[Record]]]:
    """Cases by a word of their program, and in it by half."""
    return _turned({half: by_word(rows, word) for half, rows in halves.items()})


def untrained(halves: Mapping[str, Sequence[Record]]) -> dict[str, list[Record]]:
    """By half the cases of all programs but steps of training."""
    return {
        half: [row for row in rows if kind_of(row["model"]) != TRAIN]
        for half, rows in halves.items()
    }


def by_memory(halves: Mapping[str, Sequence[Record]]) -> dict[str, dict[str, list[Record]]]:
    """Compiled cases by what the compiler lays out, and in it by half."""
    found: dict[str, dict[str, list[Record]]] = {name: {} for name in SIZES}
    for half, rows in halves.items():
        for row in rows:
            needed = needed_bytes(row) if "compiled" in row else None
            if needed is not None:
                name = [name for name, least in SIZES.items() if needed >= least][-1]
                found[name].setdefault(half, []).append(row)
    return {name: {half: some.get(half, []) for half in halves} for name, some in found.items()}


def _turned(
    found: Mapping[str, Mapping[str, list[Record]]],
) -> dict[str, dict[str, list[Record]]]:
    names = dict.fromkeys(name for groups in found.values() for name in groups)
    return {name: {half: groups.get(name, []) for half, groups in found.items()} for name in names}


def library_of(programs: Path = PROGRAMS) -> Callable[[str], str]:
    """The library of a program by its name."""
    known = {row["key"]: row["library"] for row in read_records(programs)}
    return lambda program: known.get(program, "unknown")


def program_table(programs: Path = PROGRAMS) -> str:
    """The architectures with their halves and programs, then the programs that did not lower."""
    rows = []
    records = read_records(programs)
    for name, some in by(records, "architecture").items():
        done = [row["key"].partition("/")[2] for row in some if "digest" in row]
        version = f"{some[0]['library']} {some[0]['version']}"
        rows.append([name, version, some[0]["half"], ", ".join(done)])
    parts = [table(("architecture", "library", "half", "programs"), sorted(rows))]
    failed = [f"- {row['key']}: {row['error']}" for row in records if "error" in row]
    parts += ["\n".join(["Not lowered:", "", *failed])] if failed else []
    return "\n\n".join(parts)
