// The panel at the side: what is known of the node or box that is selected.

class Details {
  constructor(model, element, go) {
    Object.assign(this, { model, element, go });
  }

  showNothing() {
    const { model } = this;
    const leaves = model.nodes.filter((n) => n.leaf);
    fill(
      this.element,
      make(
        "p",
        { class: "soft" },
        "The output is at the top, and backward runs downwards. Click a node; open a box by a double click.",
      ),
      make("h2", {}, "Leaves"),
      this.list(leaves.slice(0, 200).map((n) => n.id)),
      make("h2", {}, "Most memory"),
      this.ranking("bytes", formatBytes),
      model.own.forward && make("h2", {}, "Most time, forward"),
      model.own.forward && this.ranking("forward", formatSeconds),
      model.own.seconds && make("h2", {}, "Most time, backward"),
      model.own.seconds && this.ranking("seconds", formatSeconds),
      make("h2", {}, "Keys"),
      keyList(),
    );
  }
  /** The lines of the program that most of a figure belongs to. */
  ranking(name, format) {
    const sums = new Map();
    for (const node of this.model.nodes) {
      const value = this.model.own[name][node.id],
        place = this.model.place(node.id);
      if (!value || !place) continue;
      const known = sums.get(place) ?? { value: 0, id: node.id };
      known.value += value;
      sums.set(place, known);
    }
    const top = [...sums].sort((a, b) => b[1].value - a[1].value).slice(0, 5);
    const most = top[0]?.[1].value ?? 1;
    return make(
      "div",
      { class: "ranking" },
      ...top.map(([place, { value, id }]) =>
        make(
          "button",
          { class: "row", onclick: () => this.go(id), title: this.model.lineText(id) },
          make("span", { class: "bar", style: `width:${(100 * value) / most}%` }),
          make("code", {}, place),
          make("span", { class: "soft" }, format(value)),
        ),
      ),
    );
  }

  showBox(box, actions) {
    const { model } = this;
    const facts = [
      ["nodes", formatCount(model.count(box))],
      ["kept", formatBytes(model.figure(box, "bytes"))],
    ];
    if (box.count > 1) facts.unshift([box.kind === "loop" ? "steps" : "branches", formatCount(box.count)]);
    if (model.folded.forward) facts.push(["time, forward", formatSeconds(model.figure(box, "forward"))]);
    if (model.folded.seconds)
      facts.push(
        ["time, backward", formatSeconds(model.figure(box, "seconds"))],
        ["largest gradient", formatNumber(model.figure(box, "norm"))],
      );
    fill(
      this.element,
      make("div", { class: "name" }, box.title),
      make(
        "div",
        { class: "soft" },
        {
          loop: box.unrolled ? "a loop, step by step" : "a loop; shown is its last step",
          branches: `computed alike, beside one another${box.unrolled ? "" : "; shown is one"}`,
          module: "a call of a module",
          told: "a module: from the first use of its parameters to the last",
          parts: "one operation on a composite",
          composite: "a composite: its leaves",
          step: "one of many",
          gathered:
            "too many nodes that do not repeat: each that is shown stands for all of its op, shape and line",
        }[box.kind],
      ),
      make("div", { class: "actions" }, ...actions),
      factTable(facts),
      make("h2", {}, "In it"),
      this.list([...model.below(box)].slice(0, 100).map((item) => item.id)),
    );
  }

  showNode(id, actions) {
    const { model } = this;
    const node = model.nodes[id],
      alike = model.folded.many[model.stands[id]];
    const facts = [
      ["shape", make("code", {}, node.shape)],
      ["dtype", make("code", {}, node.dtype)],
    ];
    if (!node.leaf) facts.push(["kept", keptText(node.bytes, alike, model.folded.bytes[model.stands[id]])]);
    if (node.shared) facts.push([make("span", { title: SHARED }, "shared"), formatBytes(node.shared)]);
    if (node.module) facts.push(["module", make("code", {}, node.module)]);
    if (model.own.forward && !node.leaf) facts.push(["time, forward", forwardText(model, id)]);
    if (model.own.seconds) {
      if (!node.leaf) facts.push(["time, backward", formatSeconds(model.own.seconds[id])]);
      facts.push(["gradient", normText(model.own.norm[id])]);
    }
    if (model.data.node.freed.includes(id)) facts.push(["freed", "by a backward pass"]);
    fill(
      this.element,
      make("div", { class: "name" }, node.leaf ? node.label || "a leaf without a name" : model.title(id)),
      make("div", { class: "soft mono" }, node.leaf ? "leaf: gradients end here, in .grad" : node.name),
      make("div", { class: "actions" }, ...actions),
      factTable(facts),
      this.sparkline(id),
      ...this.source(node),
      ...this.section("Inputs", node.inputs),
      ...this.section("Used by", node.users.slice(0, 60)),
    );
  }

  /** The norm of the gradient in each step of a loop: where it vanishes, or explodes. */
  sparkline(id) {
    const { model } = this;
    if (!model.own.norm) return null;
    const rep = model.stands[id];
    const values = [];
    for (let k = 0; k < model.size; ++k) if (model.stands[k] === rep) values.push(model.own.norm[k]);
    if (values.length < 3) return null;
    const range = rangeOf(values);
    if (!range) return null;
    const w = 272,
      h = 54,
      span = Math.log10(range.high / range.low) || 1;
    const points = values.map((v, i) => [
      4 + (w - 8) * (1 - i / (values.length - 1)),
      v > 0 && Number.isFinite(v) ? h - 6 - ((h - 12) * Math.log10(v / range.low)) / span : h - 2,
    ]);
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", `0 0 ${w} ${h}`);
    svg.setAttribute("class", "spark");
    svg.innerHTML = `<polyline points="${points.map(([x, y]) => `${r(x)},${r(y)}`).join(" ")}"/>`;
    return make(
      "div",
      {},
      make("h2", {}, `Gradient, ${formatCount(values.length)} times`),
      svg,
      make(
        "div",
        { class: "soft spread" },
        make("span", {}, "first step"),
        make("span", {}, `${formatNumber(range.low)} … ${formatNumber(range.high)}`),
        make("span", {}, "last"),
      ),
    );
  }

  source(node) {
    if (node.file < 0 || node.leaf) return []; // a leaf's line is that of its first use
    const code = this.model.data.code[node.file];
    const lines = Object.entries(code.lines)
      .map(([n, text]) => [Number(n), text])
      .filter(([n]) => Math.abs(n - node.line) <= 3);
    const indent = Math.min(
      ...lines.filter(([, text]) => text.trim()).map(([, text]) => text.match(/^\s*/)[0].length),
      99,
    );
    return [
      make("h2", { title: code.path, class: "file" }, `${code.name}:${node.line}`),
      lines.length
        ? make(
            "pre",
            { class: "source" },
            ...lines.map(([n, text]) =>
              make(
                "span",
                { class: n === node.line ? "here" : "" },
                make("i", {}, String(n).padStart(4)),
                `  ${text.slice(indent)}\n`,
              ),
            ),
          )
        : make("p", { class: "soft" }, "The file could not be read."),
    ];
  }

  section(title, ids) {
    return ids.length ? [make("h2", {}, title), this.list(ids)] : [];
  }
  list(ids) {
    const { model } = this;
    return make(
      "div",
      { class: "list" },
      ...ids.map((id) =>
        make(
          "button",
          { class: "row", onclick: () => this.go(id) },
          make("b", {}, model.title(id)),
          make("code", { class: "soft" }, model.nodes[id].shape),
          make("span", { class: "soft mono" }, model.nodes[id].leaf ? "" : model.place(id)),
        ),
      ),
    );
  }
  showFound(query, ids) {
    fill(
      this.element,
      make("h2", {}, `${formatCount(ids.length)} found`),
      ids.length
        ? this.list(ids.slice(0, 200))
        : make(
            "p",
            { class: "soft" },
            `Nothing fits “${query}”. Try an op, a line (train.py:41), a shape ([3, 4]) or a name.`,
          ),
      ids.length > 200 && make("p", { class: "soft" }, `and ${formatCount(ids.length - 200)} more`),
    );
  }
}

const SHARED = "memory of leaves, or that an older node keeps as well";

function factTable(facts) {
  return make("dl", {}, ...facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
}
function keptText(bytes, alike, total) {
  if (!total) return "nothing";
  return alike > 1
    ? `${formatBytes(bytes)}, ${formatBytes(total)} in all ${formatCount(alike)}`
    : formatBytes(bytes);
}
function normText(norm) {
  if (Number.isNaN(norm)) return make("span", { class: "bad" }, "NaN");
  return norm === 0 ? "0" : `norm ${formatNumber(norm)}`;
}
function keyList() {
  const keys = [
    ["/", "search"],
    ["f", "see everything"],
    ["+ −", "zoom"],
    ["← ↑ → ↓", "go along the graph"],
    ["Enter", "open or close a box"],
    ["o c", "open, close all"],
    ["p", "path to the next click"],
    ["1 2 3 4", "colour"],
    [", .", "step back, forward"],
    ["t", "light or dark"],
    ["Esc", "let go"],
  ];
  return make(
    "dl",
    { class: "keys" },
    ...keys.flatMap(([key, text]) => [
      make("dt", {}, ...key.split(" ").map((k) => make("kbd", {}, k))),
      make("dd", {}, text),
    ]),
  );
}

/** How long the call took that made a node: measured, or the mean of its line. */
function forwardText(model, id) {
  const seconds = model.data.node.forward[id];
  if (seconds === null) return "not measured";
  return formatSeconds(seconds) + (model.data.node.means.includes(id) ? " (mean of its line)" : "");
}
