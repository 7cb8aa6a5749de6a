"""Side by side with other libraries, in the same run: time, ratio and accuracy in one table.

    python -m benchmarks                       every workload, one line for each case
    python -m benchmarks --details             and a table of all contenders for each
    python -m benchmarks nash markov --quick   two of them, in small sizes
    python -m benchmarks nash --only ours      our own rows alone
    python -m benchmarks --json out.json       also as data, with the machine and the versions
    python -m benchmarks --quick --json        data alone, on the standard output

A workload is a module of this package with a function `cases(quick) -> list[Case]`; see
`benchmarks.harness.model` for what a case and a contender are. A new workload needs nothing
else: it is found by its presence.
"""
