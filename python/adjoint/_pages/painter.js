// Draws a part of the scene with a pen. What is too small to be read is not drawn.

const FAR = 0.16; // a scale at which no text can be read, nor a border seen
const SMALL = 0.3; // a scale below which texts are left out
const MANY = 500; // items whose borders and bends are left out as well, while they are small
const NODE = { height: 42, least: 96, most: 230, chip: 18 };

/** How large an item is, by its texts. */
function measurer(model) {
  const context = document.createElement("canvas").getContext("2d");
  const known = new Map();
  const width = (text, font) => {
    const name = font + text;
    if (!known.has(name)) {
      context.font = font;
      known.set(name, context.measureText(text).width);
    }
    return known.get(name);
  };
  const measure = (item) => {
    if (item instanceof BoxItem) {
      const needed = Math.max(
        width(item.title, `600 13px ${FONTS.sans}`),
        width(boxNote(model, item), `400 11px ${FONTS.sans}`),
      );
      return [Math.min(320, Math.max(150, needed + 56)), item.count > 1 ? 56 : 48];
    }
    const node = model.nodes[item.id];
    const lines = [
      width(nodeTitle(model, item), `600 13px ${FONTS.sans}`),
      width(nodeNote(node), `400 11px ${FONTS.mono}`),
      ...item.chips.map((id) => width(chipText(model, id, node), `400 11px ${FONTS.sans}`) + 14),
    ];
    return [
      Math.min(NODE.most, Math.max(NODE.least, Math.max(...lines) + 24)),
      NODE.height + item.chips.length * NODE.chip + (item.chips.length ? 4 : 0),
    ];
  };
  /** How wide the head of an open box is. */
  measure.head = (box) =>
    box.parent
      ? Math.min(
          340,
          74 +
            width(box.title, `600 13px ${FONTS.sans}`) +
            width(boxNote(model, box), `400 11px ${FONTS.sans}`),
        )
      : 0;
  return measure;
}

const nodeTitle = (model, item) =>
  model.title(item.id) + (model.tag(item.id) && `  ·  ${model.tag(item.id)}`);
const nodeNote = (node) => `${node.shape} ${node.dtype}`;
/** The name of a leaf; of a parameter of the module that uses it, only its own. */
function chipText(model, id, user) {
  const { label, shape } = model.nodes[id];
  const [module, name] = [label.slice(0, label.lastIndexOf(".")), label.slice(label.lastIndexOf(".") + 1)];
  const inside = (path) => path.slice(path.indexOf(".") + 1);
  if (user.module && inside(module) === inside(user.module)) return name;
  return label || `leaf ${shape}`;
}
/** How many nodes are in a box: in a loop, those of a step. */
function boxNote(model, box) {
  let times = box.count;
  for (const around of box.ancestors()) if (!around.unrolled) times *= around.count;
  const size = formatCount(Math.round(model.count(box) / (box.kind === "step" ? 1 : times)));
  const nodes = `${size} ${size === "1" ? "node" : "nodes"}`;
  return box.count > 1 ? `${formatCount(box.count)} × ${nodes}` : nodes;
}

class Painter {
  constructor(model) {
    this.model = model;
    this.refresh();
  }
  /** After a change of theme. */
  refresh() {
    this.ink = Object.fromEntries(
      ["ink", "soft", "faint", "line", "wash", "sheet", "paper", "accent", "accent-wash", "warn", "bad"].map(
        (name) => [name, theme.colour(name)],
      ),
    );
  }

  /** `look`: colouring, selected, marked and path (sets of numbers of nodes), step (the player, or null). */
  draw(pen, scene, part, scale, look) {
    const { items, edges } = part;
    if (scale < FAR || (scale < SMALL && items.length > MANY)) return this.drawFar(pen, part, scale, look);
    this.drawBoxes(pen, items, scale, look);
    this.drawEdges(pen, edges, scale, look);
    if (scale >= SMALL) this.drawHeads(pen, items);
    for (const item of items) {
      if (item instanceof NodeItem) this.drawNode(pen, item, scale, look);
      else if (!item.open) this.drawClosed(pen, item, scale, look);
    }
  }

  /** From afar: colours and threads only, all of a kind in one go. */
  drawFar(pen, { items, edges }, scale, look) {
    const open = [],
      closed = new Map(),
      bright = [];
    for (const item of items) {
      if (item.open) {
        open.push(item);
        continue;
      }
      if (item === look.selected || this.isBright(item, look)) bright.push(item);
      const later = look.step && look.step.stateOf(item) === "later";
      const fill = later
        ? this.ink.line
        : look.colouring.fill(this.model.figure(item, look.colouring.figure));
      const colour = fill === this.ink.sheet ? this.ink.line : fill;
      if (!closed.has(colour)) closed.set(colour, []);
      closed.get(colour).push(item);
    }
    pen.boxes(
      open.filter((box) => box.kind !== "step"),
      this.ink.wash,
    );
    pen.boxes(
      open.filter((box) => box.kind === "step"),
      this.ink.paper,
    );
    if (scale > 0.012)
      pen.curves(
        edges.map((edge) => edge.curves[0]),
        { stroke: this.ink.line, width: 1 / scale, straight: true },
      );
    for (const [colour, list] of closed) pen.boxes(list, colour);
    pen.boxes(bright, look.path || look.selected ? this.ink.accent : this.ink.warn);
  }
  isBright(item, look) {
    if (look.step?.at && look.step.stateOf(item) === "now") return true;
    return Boolean(
      (look.marked && this.isOn(item, look.marked)) || (look.path && this.isOn(item, look.path)),
    );
  }

  drawBoxes(pen, items, scale, look) {
    for (const box of items) {
      if (!(box instanceof BoxItem) || !box.open) continue;
      const chosen = look.selected === box;
      pen.box(box.ax, box.ay, box.w, box.h, {
        fill: this.veil(box),
        stroke: chosen ? this.ink.accent : this.ink.line,
        width: chosen ? 2 : 1,
        radius: 10,
        dash: box.kind === "step" ? [4, 4] : [],
      });
    }
  }
  /** The names of open boxes, over the edges that lead into them. */
  drawHeads(pen, items) {
    for (const box of items) {
      if (!(box instanceof BoxItem) || !box.open) continue;
      const note = boxNote(this.model, box),
        halo = this.veil(box),
        y = box.ay + 18;
      const most = box.w - 56 - pen.width(note, 11);
      pen.text("▾", box.ax + 12, y, { fill: this.ink.soft, size: 12, halo });
      pen.text(box.title, box.ax + 28, y, { fill: this.ink.ink, size: 13, weight: 600, most, halo });
      pen.text(note, box.ax + box.w - 14, y, { fill: this.ink.soft, size: 11, align: "right", halo });
    }
  }
  // Boxes in boxes take turns, so that their edges are seen.
  veil(box) {
    let depth = 0;
    for (const _ of box.ancestors()) ++depth;
    return depth % 2 ? this.ink.wash : this.ink.paper;
  }

  drawEdges(pen, edges, scale, look) {
    if (scale < 0.03) return;
    const plain = [],
      again = [],
      bold = [];
    const near = look.selected;
    for (const edge of edges) {
      const onPath = look.path && this.isOn(edge.from, look.path) && this.isOn(edge.to, look.path);
      if (onPath || edge.from === near || edge.to === near) bold.push(edge);
      else (edge.again ? again : plain).push(edge);
    }
    const straight = scale < 0.2;
    const width = Math.max(1.1, 0.7 / scale);
    const curves = (list) => list.flatMap((edge) => edge.curves);
    const ends = (list) => list.map((edge) => edge.curves[edge.curves.length - 1]);
    pen.curves(curves(plain), { stroke: this.ink.faint, width, straight });
    pen.curves(curves(again), { stroke: this.ink.accent, width, dash: [5, 4], straight });
    pen.curves(curves(bold), { stroke: this.ink.accent, width: width * 1.8, straight });
    if (scale < 0.35) return;
    pen.heads(ends(plain), { fill: this.ink.faint });
    pen.heads(ends(again), { fill: this.ink.accent });
    pen.heads(ends(bold), { fill: this.ink.accent });
  }
  isOn(item, path) {
    if (item instanceof NodeItem) return path.has(item.id);
    for (const inner of this.model.below(item)) if (path.has(inner.id)) return true;
    return false;
  }

  drawNode(pen, item, scale, look) {
    const node = this.model.nodes[item.id];
    const value = this.model.figure(item, look.colouring.figure);
    const state = look.step ? look.step.stateOf(item) : null;
    const fill = state === "later" ? this.ink.paper : look.colouring.fill(value);
    const chosen = look.selected === item,
      marked = look.marked?.has(item.id) || look.path?.has(item.id);
    const edge =
      chosen || state === "now"
        ? this.ink.accent
        : marked
          ? this.ink.warn
          : state === "waiting"
            ? this.ink.accent
            : this.ink.faint;
    const faded = (look.path && !look.path.has(item.id)) || (look.marked && !look.marked.has(item.id));
    pen.box(item.ax, item.ay, item.w, item.h, {
      fill: faded ? this.ink.sheet : fill,
      stroke: edge,
      width: chosen || marked || state === "now" ? Math.max(2.5, 2 / scale) : 1,
      radius: node.leaf ? NODE.height / 2 : 7,
      dash: state === "waiting" && !chosen ? [4, 3] : [],
    });
    if (scale < SMALL) return;
    const [ink, soft] = faded
      ? [this.ink.soft, this.ink.faint]
      : look.colouring.inksOn(state === "later" ? null : value);
    const x = item.ax + item.w / 2;
    pen.text(nodeTitle(this.model, item), x, item.ay + 15, {
      fill: ink,
      size: 13,
      weight: 600,
      align: "center",
      most: item.w - 16,
    });
    pen.text(nodeNote(node), x, item.ay + 31, {
      fill: soft,
      size: 11,
      mono: true,
      align: "center",
      most: item.w - 14,
    });
    item.chips.forEach((id, i) => this.drawChip(pen, item, id, i, look));
  }
  drawChip(pen, item, id, i, look) {
    const y = item.ay + NODE.height + i * NODE.chip;
    const now = look.step?.isNow(id),
      chosen = look.leaf === id || now;
    pen.box(item.ax + 7, y, item.w - 14, NODE.chip - 3, {
      fill: chosen ? this.ink["accent-wash"] : this.ink.sheet,
      stroke: chosen ? this.ink.accent : this.ink.line,
      radius: 8,
      width: now ? 2.5 : 1,
    });
    pen.text(chipText(this.model, id, this.model.nodes[item.id]), item.ax + item.w / 2, y + 8, {
      fill: this.ink.soft,
      size: 11,
      align: "center",
      most: item.w - 26,
    });
  }

  drawClosed(pen, box, scale, look) {
    const value = this.model.figure(box, look.colouring.figure);
    const state = look.step ? look.step.stateOf(box) : null;
    const fill = state === "later" ? this.ink.paper : look.colouring.fill(value);
    const chosen = look.selected === box || state === "now";
    const marked = (look.marked && this.isOn(box, look.marked)) || (look.path && this.isOn(box, look.path));
    const stroke = chosen ? this.ink.accent : marked ? this.ink.warn : this.ink.faint;
    const width = chosen || marked ? Math.max(2.5, 2 / scale) : 1;
    const height = box.count > 1 ? box.h - 8 : box.h;
    if (box.count > 1) {
      // a pile of sheets
      pen.box(box.ax + 8, box.ay + 8, box.w - 8, height, {
        fill: this.ink.wash,
        stroke,
        width: 1,
        radius: 9,
      });
      pen.box(box.ax + 4, box.ay + 4, box.w - 8, height, {
        fill: this.ink.wash,
        stroke,
        width: 1,
        radius: 9,
      });
    }
    const w = box.count > 1 ? box.w - 8 : box.w;
    pen.box(box.ax, box.ay, w, height, { fill, stroke, width, radius: 9 });
    if (scale < SMALL) return;
    const [ink, soft] = look.colouring.inksOn(state === "later" ? null : value);
    pen.text("▸", box.ax + 12, box.ay + 17, { fill: soft, size: 12 });
    pen.text(box.title, box.ax + 28, box.ay + 17, { fill: ink, size: 13, weight: 600, most: w - 40 });
    pen.text(boxNote(this.model, box), box.ax + 28, box.ay + 34, { fill: soft, size: 11, most: w - 40 });
  }
}
