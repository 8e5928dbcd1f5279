"""Side-by-side measurements against PyTorch: `python -m benchmarks --help`.

`workloads/` holds what is measured, one file per subject; `harness.py` how; `worker.py` is the
process in which one library runs; `report.py` prints and writes RESULTS.md.
"""
