"""Draw times as fast as PyTorch, from benchmarks/RESULTS.md: `python docs/images/speed.py`."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "RESULTS.md"
BLUE = "#2062b4"
# What the picture calls a row of the table, by how that begins.
ROWS = {
    "chain of 100 products": "100 small products, backward",
    "scalar recurrence, 1,000 steps": "recurrence of 1,000 steps",
    "x*y, shape (3,)": "one small product, recorded",
    "mass-spring, 200 steps": "mass–spring, 200 steps",
    "custom function of x*2": "custom function",
    "(sin(X)*exp(-X*X)+X**2).sum(), gradient, n=1e7": "elementwise, 1e7 numbers",
    "MLP 784-256-256-10, Adam step, batch 1 ": "MLP with Adam, batch 1",
    "rfft of 1e6": "Fourier transform of 1e6",
    "MLP 784-256-256-10, Adam step, batch 32": "MLP with Adam, batch 32",
    "conv2d net": "convolutional network",
    "GPT, 4 layers": "small GPT with AdamW",
    "((A@B)*C).sum(), gradients, n=1024": "product of 1024 × 1024",
}


def ratios() -> dict[str, float]:
    """How many times as fast adjoint is, by what the picture calls the row."""
    found = {}
    for line in RESULTS.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        for start, name in ROWS.items():
            if len(cells) > 6 and (cells[0] + " ").startswith(start) and name not in found:
                found[name] = float(cells[6].rstrip("×"))
    assert len(found) == len(ROWS), set(ROWS.values()) - set(found)
    return found


def main() -> None:
    found = sorted(ratios().items(), key=lambda pair: pair[1])
    figure = Figure(figsize=(8.4, 3.6), dpi=130, layout="constrained")
    axes = figure.subplots()
    axes.barh([name for name, _ in found], [ratio for _, ratio in found], color=BLUE, height=0.65)
    for place, (_, ratio) in enumerate(found):
        text = f"{ratio:.0f}×" if ratio >= 10 else f"{ratio + 1e-6:.1f}×"
        axes.text(ratio * 1.04, place, text, va="center", size=9)
    axes.set_xscale("log")
    axes.set_xlim(1, 80)
    axes.set_xticks([1, 3, 10, 30], ["1× (PyTorch)", "3×", "10×", "30×"])
    axes.set_xticks([], minor=True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title("times as fast as PyTorch 2.13, one thread, with gradients", size=10)
    figure.savefig(Path(__file__).with_name("speed.png"))


if __name__ == "__main__":
    main()
