// The page of a graph: puts the parts together, and does what mouse and keys say. Read first.
//
//   model.js    nodes, boxes, what is open          search.js   finding nodes
//   layout.js   where things stand                  details.js  the panel
//   scene.js    what is on the sheet now            player.js   the steps of a pass
//   painter.js  drawing it, with pens.js            camera.js   which part is seen
//   keys.js     the keyboard                        export.js   SVG, PNG and print

class GraphPage {
  constructor(data) {
    this.model = new Model(data);
    this.openSmall();
    this.scene = new Scene(this.model, measurer(this.model));
    this.painter = new Painter(this.model);
    this.search = new Search(this.model);
    this.figure = "bytes";
    this.selected = this.marked = this.path = this.leaf = null;
    this.build(data);
    this.camera = new Camera(this.canvas, () => this.redraw(false));
    this.listen();
    this.recolour();
    this.details.showNothing();
    this.player?.tell();
    this.resize();
  }

  /** Boxes start open, those of a level all or none, as long as the page stays easy to take in; loops, if there
   * is nothing else. */
  openSmall() {
    const { model } = this;
    const alone = model.root.items.filter((item) => !model.nodes[item.id]?.leaf).length === 1;
    let shown = model.root.items.length,
      level = model.root.items;
    for (;;) {
      const boxes = level.filter((item) => item instanceof BoxItem && (item.count === 1 || alone));
      shown += boxes.reduce((sum, box) => sum + box.items.length, 0);
      if (!boxes.length || shown > 30) return;
      for (const box of boxes) box.open = true;
      level = boxes.flatMap((box) => box.items);
    }
  }

  // --- elements
  build(data) {
    const measured = Boolean(this.model.own.seconds);
    const without = "save with backward=True to see this";
    const timed = Boolean(this.model.own.forward);
    const untimed = "compute inside of ad.profile() to see this";
    this.colours = segments(
      "colour",
      [
        ["bytes", "memory", "colour by memory kept (1)"],
        ["seconds", "backward", measured ? "colour by time in backward (2)" : without, measured],
        ["norm", "gradient", measured ? "colour by the norm of gradients (3)" : without, measured],
        ["forward", "forward", timed ? "colour by time in forward (4)" : untimed, timed],
      ],
      this.figure,
      (figure) => this.colourBy(figure),
    );
    this.input = make("input", {
      id: "search",
      type: "search",
      placeholder: "search: op, line, shape  /",
      "aria-label": "search",
      oninput: () => this.find(),
      onkeydown: (e) => {
        if (e.key === "Enter") this.nextFound(e.shiftKey ? -1 : 1);
        if (e.key === "Escape") {
          this.input.value = "";
          this.find();
          this.canvas.focus();
        }
      },
    });
    const button = (text, title, action) => make("button", { title, onclick: action }, text);
    this.canvas = make("canvas", { tabindex: 0, "aria-label": "the graph; arrow keys go along it" });
    this.legend = make("div", { id: "legend" });
    this.hint = make("div", { id: "hint", role: "status" });
    this.panel = make("div", {});
    if (data.steps) this.player = new Player(this.model, (id) => this.follow(id));
    const page = make(
      "div",
      { id: "page" },
      make(
        "header",
        {},
        make(
          "div",
          { class: "what" },
          make("h1", {}, data.title),
          make("div", { class: "soft" }, data.counts),
        ),
        this.input,
        this.colours,
        make(
          "span",
          { class: "segments" },
          button("open all", "open every box (o)", () => this.openAll(true)),
          button("close all", "close every box (c)", () => this.openAll(false)),
        ),
        button("fit", "see everything (f)", () => this.seeAll()),
        make(
          "span",
          { class: "segments" },
          button("SVG", "save as SVG", () => saveSvg(this)),
          button("PNG", "save as PNG", () => savePng(this)),
          button("print", "print", () => window.print()),
        ),
        button("◐", "light or dark (t)", () => theme.toggle()),
      ),
      make("div", { id: "sheet" }, this.canvas, this.legend, this.hint),
      make("aside", {}, this.player?.report, this.panel),
      this.player?.element,
    );
    document.body.append(page, make("div", { id: "print" }));
    this.details = new Details(this.model, this.panel, (id) => this.goTo(id));
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("click", (event) => {
      if (this.camera.dragged < 5) this.click(event);
    });
    canvas.addEventListener("dblclick", (event) => {
      const item = this.itemAt(event);
      if (item instanceof BoxItem) this.toggle(item);
    });
    document.addEventListener("keydown", (event) => pressKey(this, event));
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    theme.listeners.push(() => {
      this.painter.refresh();
      this.recolour();
    });
    window.addEventListener("beforeprint", () => preparePrint(this));
  }

  // --- drawing
  resize() {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas.parentElement;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    // A page in a part of a notebook that is not open has no size until it is opened.
    if (!this.wasSeen && clientWidth && clientHeight) {
      this.wasSeen = true;
      this.seeAll(0.8);
    }
    this.redraw();
  }
  /** Soon; `changed` if more than the camera moved. */
  redraw(changed = true) {
    if (changed) this.afar = null;
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }
  draw() {
    const { canvas, camera } = this;
    const context = canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1,
      scale = camera.scale * ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.painter.ink.paper;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(scale, 0, 0, scale, -camera.x * scale, -camera.y * scale);
    if (camera.scale < FAR && this.scene.items.length > 2000) {
      this.drawAfar(context);
      return;
    }
    const [width, height] = camera.size;
    const part = this.scene.inside(
      camera.x,
      camera.y,
      camera.x + width / camera.scale,
      camera.y + height / camera.scale,
    );
    this.painter.draw(new CanvasPen(context), this.scene, part, camera.scale, this.look());
    this.drawn = { items: part.items.length, edges: part.edges.length };
  }
  /** A large graph from afar is painted once, and moved about as a picture. */
  drawAfar(context) {
    const { width, height } = this.scene;
    if (!this.afar) {
      const scale = Math.min(FAR, 4096 / Math.max(width, height));
      this.afar = make("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
      const inner = this.afar.getContext("2d");
      inner.scale(scale, scale);
      this.painter.draw(
        new CanvasPen(inner),
        this.scene,
        this.scene,
        Math.min(scale, FAR * 0.99),
        this.look(),
      );
    }
    context.imageSmoothingQuality = "high";
    context.drawImage(this.afar, 0, 0, width, height);
    this.drawn = { items: this.scene.items.length, edges: this.scene.edges.length };
  }
  look() {
    return {
      colouring: this.colouring,
      selected: this.selected,
      marked: this.marked,
      path: this.path,
      leaf: this.leaf,
      step: this.player?.at ? this.player : null,
    };
  }
  recolour() {
    const values = this.scene.items
      .filter((item) => item instanceof NodeItem || !item.open)
      .map((item) => this.model.figure(item, this.figure));
    this.colouring = new Colouring(this.figure, rangeOf(values));
    const { range, steps } = this.colouring;
    const [name, format] = {
      bytes: ["kept", formatBytes],
      forward: ["time, forward", formatSeconds],
      seconds: ["time, backward", formatSeconds],
      norm: ["gradient norm", formatNumber],
    }[this.figure];
    fill(
      this.legend,
      name,
      range
        ? [
            make("span", { class: "soft" }, format(range.low)),
            make("i", { style: `background:linear-gradient(90deg, ${steps[0]}, ${steps[24]})` }),
            make("span", { class: "soft" }, format(range.high)),
          ]
        : make("span", { class: "soft" }, "nothing"),
    );
    this.redraw();
  }
  colourBy(figure) {
    this.figure = figure;
    this.recolour();
  }

  // --- opening and closing
  /** After a change of what is open: the given item stays where it is on the screen. */
  relayout(item = null) {
    const before = item && [item.ax, item.ay];
    this.scene.rebuild();
    if (item) {
      this.camera.x += item.ax - before[0];
      this.camera.y += item.ay - before[1];
    }
    this.recolour();
  }
  toggle(box, open = !box.open) {
    this.model.toggle(box, open);
    this.relayout(box);
    this.select(box);
  }
  unroll(box) {
    box.unrolled = !box.unrolled;
    box.open = true;
    this.model.touch(box);
    this.relayout(box);
    this.select(box);
  }
  openAll(open) {
    for (const box of this.model.boxes()) this.model.toggle(box, open);
    if (!open && this.selected?.parent?.parent) this.select(null);
    this.relayout();
    this.seeAll();
  }
  /** Everything; or the upper part, where it would get smaller than `least`. */
  seeAll(least = 0.005) {
    const { scene, model } = this;
    const output = scene.shown[model.data.outputs[0]] ?? scene.items[0];
    this.camera.fit(scene, output, least);
  }

  // --- choosing
  itemAt(event) {
    return this.scene.at(...this.camera.toSheet(event.offsetX, event.offsetY));
  }
  click(event) {
    this.canvas.focus();
    const item = this.itemAt(event);
    const chip = item instanceof NodeItem ? this.chipAt(item, event) : null;
    if (this.from !== undefined && this.from !== null && item instanceof NodeItem)
      this.showPath(this.from, item.id);
    else if (event.shiftKey && this.selected instanceof NodeItem && item instanceof NodeItem)
      this.showPath(this.selected.id, item.id);
    else if (chip !== null) this.selectLeaf(chip);
    else this.select(item);
  }
  chipAt(item, event) {
    const [, y] = this.camera.toSheet(event.offsetX, event.offsetY);
    const i = Math.floor((y - item.ay - NODE.height) / NODE.chip);
    return i >= 0 && i < item.chips.length ? item.chips[i] : null;
  }
  select(item) {
    this.selected = item;
    this.leaf = null;
    this.path = null;
    this.say("");
    if (item instanceof NodeItem) this.details.showNode(item.id, this.nodeActions(item.id));
    else if (item) this.details.showBox(item, this.boxActions(item));
    else if (this.input.value) this.find();
    else this.details.showNothing();
    this.redraw();
  }
  selectLeaf(id) {
    this.selected = null;
    this.leaf = id;
    this.details.showNode(id, this.nodeActions(id));
    this.redraw();
  }
  nodeActions(id) {
    const button = (text, title, action) => make("button", { title, onclick: action }, text);
    return [
      button("path to …", "the nodes between this one and the next that is clicked (p)", () =>
        this.startPath(id),
      ),
      this.player &&
        Number.isFinite(this.player.when[id]) &&
        button("its step", "go to the step in which it ran", () => this.player.go(this.player.when[id])),
    ].filter(Boolean);
  }
  boxActions(box) {
    const button = (text, title, action) => make("button", { title, onclick: action }, text);
    return [
      button(box.open ? "close" : "open", "Enter", () => this.toggle(box)),
      box.others &&
        button(
          box.unrolled ? "only one" : `all ${formatCount(box.count)}`,
          "show every step of the loop, or its last one",
          () => this.unroll(box),
        ),
    ].filter(Boolean);
  }
  /** Show a node, wherever it is. */
  goTo(id) {
    this.model.reveal(id);
    this.scene.rebuild();
    this.recolour();
    const item = this.scene.shown[id];
    if (item) {
      this.select(item);
      this.camera.centre(item);
    } else {
      this.selectLeaf(id);
      const user = this.model.nodes[id].users.map((user) => this.scene.shown[user]).find(Boolean);
      if (user) this.camera.centre(user);
    }
  }

  // --- paths, search, steps
  startPath(id) {
    this.from = id;
    this.say("click the node at the other end");
  }
  showPath(a, b) {
    const path = this.model.between(a, b);
    this.from = null;
    this.path = path.size ? path : null;
    this.say(
      path.size ? `${formatCount(path.size)} nodes on the way` : "no path leads from one to the other",
    );
    this.redraw();
  }
  say(text) {
    this.hint.textContent = text;
  }
  find() {
    const query = this.input.value.trim();
    this.found = this.search.find(query);
    this.foundAt = -1;
    const reps = this.found.map((id) => this.model.stands[id]);
    this.marked = query ? new Set([...this.found, ...reps]) : null;
    this.selected = this.path = null;
    if (query) this.details.showFound(query, this.found);
    else this.details.showNothing();
    this.redraw();
  }
  nextFound(step) {
    if (!this.found?.length) return;
    this.foundAt = (this.foundAt + step + this.found.length) % this.found.length;
    this.goTo(this.found[this.foundAt]);
    this.say(`${this.foundAt + 1} of ${formatCount(this.found.length)}`);
  }
  /** The player is at this node: keep it in sight. */
  follow(id) {
    const item =
      id === null ? null : (this.scene.shown[id] ?? this.scene.shown[this.model.nodes[id].users[0]]);
    if (item && !this.camera.shows(item)) this.camera.centre(item);
    if (id !== null) this.details.showNode(id, this.nodeActions(id));
    else this.details.showNothing();
    this.redraw();
  }

  pressColour(figure) {
    if (!this.model.own[figure]) return;
    this.colours.press(figure);
    this.colourBy(figure);
  }
  choose(item) {
    if (!item) return;
    this.select(item);
    if (!this.camera.shows(item)) this.camera.centre(item);
  }
  letGo() {
    this.from = null;
    this.select(null);
  }
}

// In reach of a debugger, and of tests.
window.adjointPage = new GraphPage(DATA);
