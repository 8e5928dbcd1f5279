// The steps of a recorded backward pass, played: a slider, and what each step did.

class Player {
  constructor(model, changed) {
    Object.assign(this, { model, changed, steps: model.data.steps.map(readStep), at: 0, timer: null });
    this.when = new Array(model.size).fill(Infinity); // the step in which a node ran
    this.arrived = new Array(model.size).fill(Infinity); // the step in which it first got something
    this.steps.forEach((step, i) => {
      this.when[step.node] = i + 1;
      for (const { to, gradient } of step.sent)
        if (gradient) this.arrived[to] = Math.min(this.arrived[to], i + 1);
    });
    this.slider = make("input", {
      type: "range",
      min: 0,
      max: this.steps.length,
      value: 0,
      "aria-label": "step",
      oninput: () => this.go(Number(this.slider.value)),
    });
    this.text = make("span", { class: "mono where" });
    this.play = make("button", { title: "play (space)", onclick: () => this.toggle() }, "play");
    const button = (text, title, action) => make("button", { title, onclick: action }, text);
    this.element = make(
      "div",
      { id: "player", role: "group", "aria-label": "backward pass" },
      button("|◀", "to the start", () => this.go(0)),
      button("−1", "one step back ( , )", () => this.go(this.at - 1)),
      this.play,
      button("+1", "one step on ( . )", () => this.go(this.at + 1)),
      button("▶|", "to the end", () => this.go(this.steps.length)),
      this.slider,
      this.text,
      button("next NaN", "run to a gradient that is NaN or infinite", () => this.seek(isBad)),
      button("next zero", "run to a gradient that is zero throughout", () => this.seek(isZero)),
    );
    this.report = make("div", { id: "step" });
  }
  get step() {
    return this.at ? this.steps[this.at - 1] : null;
  }
  go(at) {
    this.at = Math.min(this.steps.length, Math.max(0, at));
    this.slider.value = this.at;
    this.tell();
    this.changed(this.step?.node ?? null);
  }
  toggle() {
    if (this.timer) {
      clearInterval(this.timer);
      this.timer = null;
    } else {
      if (this.at === this.steps.length) this.at = 0;
      // About ten seconds for a short pass, never slower than two steps a second.
      const pause = Math.min(500, Math.max(16, 10_000 / this.steps.length));
      this.timer = setInterval(() => {
        this.go(this.at + 1);
        if (this.at === this.steps.length) this.toggle();
      }, pause);
    }
    this.play.textContent = this.timer ? "pause" : "play";
  }
  /** To the next step that passes on, or gets, a gradient that fits. */
  seek(test) {
    const fits = (step) => [...step.got, ...step.sent.map((s) => s.gradient)].some((g) => g && test(g));
    const found = this.steps.findIndex((step, i) => i >= this.at && fits(step));
    if (found < 0) this.text.textContent = "none after this step";
    else this.go(found + 1);
  }
  tell() {
    const { step } = this;
    this.text.textContent = `${formatCount(this.at)} of ${formatCount(this.steps.length)}`;
    if (!step) {
      fill(this.report);
      return;
    }
    const { model } = this,
      node = model.nodes[step.node];
    const freed = this.steps.slice(0, this.at).reduce((sum, s) => sum + s.freed, 0);
    fill(
      this.report,
      make("h2", {}, `Step ${formatCount(this.at)}`),
      make(
        "div",
        { class: "name" },
        model.title(step.node),
        make("span", { class: "soft mono" }, `  ${model.place(step.node)}`),
      ),
      ...step.breaks.map((reason) => make("p", { class: "bad" }, reason)),
      ...step.got.map((g) => gradientRow("got", g)),
      ...step.used.map((g) => gradientRow("after hooks", g)),
      ...step.sent.map((s) => gradientRow(s.added ? "added to" : "sent to", s.gradient, model.title(s.to))),
      node.leaf && step.after && gradientRow(".grad was", step.before),
      node.leaf && step.after && gradientRow(".grad is", step.after),
      make(
        "p",
        { class: "soft" },
        formatSeconds(step.seconds),
        step.freed ? `, frees ${formatBytes(step.freed)}` : "",
        freed ? `, ${formatBytes(freed)} freed so far` : "",
      ),
    );
  }
  // --- for the painter: how an item stands at this step
  stateOf(item) {
    let state = "later";
    const ids = item instanceof NodeItem ? this.alike(item) : this.inside(item);
    for (const id of ids) {
      if (this.when[id] === this.at && this.at) return "now";
      if (this.when[id] < this.at) state = "ran";
      else if (this.arrived[id] <= this.at && state === "later") state = "waiting";
    }
    return state;
  }
  alike(item) {
    if (this.model.isUnrolled(item)) return [item.id];
    this.groups ??= this.model.stands.reduce(
      (groups, rep, id) => (groups.get(rep)?.push(id) ?? groups.set(rep, [id]), groups),
      new Map(),
    );
    return this.groups.get(item.id) ?? [item.id];
  }
  inside(box) {
    return [...this.model.below(box)].flatMap((item) => this.alike(item));
  }
  isNow(id) {
    return this.at > 0 && this.steps[this.at - 1].node === id;
  }
}

/** A step as it comes from Python: gradients there are lists, since there are many. */
function readStep(step) {
  return {
    ...step,
    got: step.got.map(readGradient),
    used: step.used?.map(readGradient) ?? [],
    sent: step.sent.map(([to, gradient, added]) => ({ to, gradient: readGradient(gradient), added })),
    before: readGradient(step.before),
    after: readGradient(step.after),
  };
}

function readGradient(list) {
  if (!list) return null;
  const [norm, smallest, largest, zeros, nans, infs, count, values] = list;
  return { norm, smallest, largest, zeros, nans, infs, count, values };
}

const isZero = (gradient) => gradient.count > 0 && gradient.zeros === gradient.count;
const isBad = (gradient) => gradient.nans + gradient.infs > 0;

function gradientRow(name, gradient, where = "") {
  const head = make(
    "div",
    { class: "spread" },
    make("span", { class: "soft" }, name, where ? " " : "", where ? make("b", {}, where) : ""),
    gradient ? make("span", { class: "mono" }, `norm ${formatNumber(gradient.norm)}`) : "",
  );
  if (!gradient) return make("div", { class: "gradient" }, head, make("span", { class: "soft" }, "nothing"));
  const { values, count } = gradient;
  const first = values.map(formatNumber).join("  ") + (count > values.length ? "  …" : "");
  const note = make("div", { class: isBad(gradient) ? "bad" : "soft" }, remarks(gradient));
  return make("div", { class: "gradient" }, head, make("code", {}, first), note);
}

/** "of 3: 1 NaN, 2 zeros; 0 … 4" */
function remarks(gradient) {
  const { nans, infs, zeros, count, smallest, largest } = gradient;
  const unusual = [
    nans && `${formatCount(nans)} NaN`,
    infs && `${formatCount(infs)} infinite`,
    isZero(gradient) ? "all zero" : zeros && `${formatCount(zeros)} zeros`,
  ].filter(Boolean);
  const range = count > 1 ? `; ${formatNumber(smallest)} … ${formatNumber(largest)}` : "";
  return `of ${formatCount(count)}${unusual.length ? `: ${unusual.join(", ")}` : ""}${range}`;
}
