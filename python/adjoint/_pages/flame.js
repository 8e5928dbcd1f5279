// The page of a profile: boxes as wide as the time they took, one row for each of direction, file, line and
// operation; a click makes a box as wide as the page. Below, the same times in tables.

const LEVELS = 5;

class FlamePage {
  constructor(data) {
    this.data = data;
    const outside = { title: "outside of operations", seconds: data.outside, items: [], kind: "outside" };
    const parts = data.flame.map((part) => ({ ...part, kind: part.title }));
    this.root = { title: "all", seconds: data.seconds, items: [...parts, outside], kind: "outside" };
    this.flame = make("div", { id: "flame" });
    document.body.append(
      make(
        "div",
        { id: "profile" },
        make(
          "header",
          {},
          make(
            "div",
            { class: "what" },
            make("h1", {}, `Where the time went: ${formatSeconds(data.seconds)}`),
            make(
              "div",
              { class: "soft" },
              `${formatSeconds(data.seconds - data.outside)} in operations, ${formatSeconds(data.outside)} outside`,
            ),
          ),
          make("button", { title: "see everything (f)", onclick: () => this.show(this.root) }, "all"),
          make("button", { title: "print", onclick: () => window.print() }, "print"),
          make("button", { title: "light or dark (t)", onclick: () => theme.toggle() }, "◐"),
        ),
        make(
          "main",
          {},
          this.flame,
          make("h2", {}, "By line"),
          this.table("line", data.lines),
          make("h2", {}, "By operation"),
          this.table("operation", data.ops),
          ...(data.note ? [make("p", { class: "soft" }, data.note)] : []),
        ),
      ),
    );
    this.show(this.root);
    document.addEventListener("keydown", (event) => {
      if (event.key === "t") theme.toggle();
      if (event.key === "f" || event.key === "Escape") this.show(this.root);
    });
  }

  /** Draw the boxes, with one of them, and those around it, over the whole width. */
  show(chosen) {
    this.chosen = chosen;
    const boxes = [];
    const holds = (box) => box === chosen || box.items.some(holds);
    const draw = (box, left, width, level, kind) => {
      if (width < 0.0015 || level >= LEVELS) return;
      const share = ((100 * box.seconds) / this.data.seconds).toFixed(1);
      boxes.push(
        make(
          "button",
          {
            class: `box ${kind}${width < 0.02 ? " thin" : ""}`,
            style: `left:${100 * left}%;width:${100 * width}%;top:${26 * level}px`,
            title: `${box.title}: ${formatSeconds(box.seconds)}, ${share} %`,
            onclick: () => this.show(box),
          },
          box.title,
        ),
      );
      const around = box !== chosen && box.items.find(holds);
      if (around) return draw(around, 0, 1, level + 1, around.kind ?? kind);
      let at = left;
      for (const item of box.items) {
        const wide = box.seconds ? (width * item.seconds) / box.seconds : 0;
        draw(item, at, wide, level + 1, item.kind ?? kind);
        at += wide;
      }
    };
    draw(this.root, 0, 1, 0, "outside");
    fill(this.flame, ...boxes);
  }

  table(what, rows) {
    const time = (seconds) => (seconds ? formatSeconds(seconds) : "");
    const whole = this.data.seconds || 1;
    const percent = (seconds) => ((100 * seconds) / whole).toFixed(1);
    const within = (error) => (error > 0.0005 * whole ? ` ±${percent(error)}` : "");
    return make(
      "table",
      {},
      make(
        "tr",
        {},
        ...["forward", "backward", "share", "calls", "bytes kept", what].map((name) => make("th", {}, name)),
      ),
      ...rows.map(([name, forward, backward, count, bytes, error, countError]) =>
        make(
          "tr",
          {},
          make("td", {}, time(forward)),
          make("td", {}, time(backward)),
          make("td", {}, `${percent(forward + backward)} %${within(error)}`),
          make("td", {}, (countError ? "~" : "") + formatCount(count)),
          make("td", {}, bytes > 0 ? formatBytes(bytes) : ""),
          make("td", {}, make("code", {}, name)),
        ),
      ),
    );
  }
}

// In reach of a debugger, and of tests.
window.adjointPage = new FlamePage(DATA);
