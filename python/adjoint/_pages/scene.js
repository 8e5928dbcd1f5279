// What is on the sheet now, with absolute places: items, edges, and a grid that finds them.

const CELL = 400; // of the grid

class Scene {
  constructor(model, measure) {
    this.model = model;
    this.measure = measure;
    this.rebuild();
  }

  rebuild() {
    const { model } = this;
    this.shown = model.visible();
    this.edges = this.visibleEdges();
    this.setChips();
    layOut(model, this.edges, this.measure);
    this.items = [];
    const place = (box, x, y) => {
      for (const item of model.itemsOf(box)) {
        item.ax = x + item.x;
        item.ay = y + item.y;
        this.items.push(item);
        if (item instanceof BoxItem && item.open) place(item, item.ax, item.ay);
      }
    };
    model.root.ax = model.root.ay = 0;
    place(model.root, 0, 0);
    this.width = model.root.w;
    this.height = model.root.h;
    this.index();
  }

  /** Edges between what is in view, each once; those from a step of a loop to the one before are marked. */
  visibleEdges() {
    const { nodes, chipped } = this.model;
    const numbers = new Map();
    const numberOf = (item) => {
      if (!numbers.has(item)) numbers.set(item, numbers.size);
      return numbers.get(item);
    };
    const found = new Map();
    for (const node of nodes) {
      const from = this.shown[node.id];
      for (const input of node.inputs) {
        if (chipped.has(input)) continue;
        const to = this.shown[input];
        if (!from || !to) continue;
        // Inside a closed box nothing is to be seen, but a node may use its own result of the step before.
        if (from === to && from instanceof BoxItem) continue;
        const name = numberOf(from) * 2 ** 26 + numberOf(to);
        const again = from === to || ageOf(from) > ageOf(to);
        const known = found.get(name);
        if (known) known.many += 1;
        else found.set(name, { from, to, again, many: 1 });
      }
    }
    return [...found.values()].filter((edge) => edge.from !== edge.to);
  }

  setChips() {
    const { nodes, chipped } = this.model;
    for (const node of nodes) {
      const item = this.shown[node.id];
      if (!(item instanceof NodeItem) || item.id !== node.id) continue;
      item.chips = node.inputs.filter((id) => chipped.has(id));
    }
  }

  index() {
    this.grid = new Map();
    this.long = []; // edges that cross so many cells that they are always looked at
    const put = (thing, x0, y0, x1, y1) => {
      const cells = [];
      for (let i = Math.floor(x0 / CELL); i <= x1 / CELL; ++i) {
        for (let j = Math.floor(y0 / CELL); j <= y1 / CELL; ++j) cells.push(`${i},${j}`);
      }
      if (cells.length > 48) {
        this.long.push(thing);
        return;
      }
      for (const cell of cells) {
        if (!this.grid.has(cell)) this.grid.set(cell, []);
        this.grid.get(cell).push(thing);
      }
    };
    for (const item of this.items) put(item, item.ax, item.ay, item.ax + item.w, item.ay + item.h);
    for (const edge of this.edges) {
      edge.curves = curvesOf(edge);
      const xs = edge.curves.flatMap((c) => [c[0], c[6]]),
        ys = edge.curves.flatMap((c) => [c[1], c[7]]);
      put(edge, Math.min(...xs) - 20, Math.min(...ys) - 20, Math.max(...xs) + 20, Math.max(...ys) + 20);
    }
  }

  /** Everything that may be seen in a part of the sheet. */
  inside(x0, y0, x1, y1) {
    const cells =
      (Math.floor(x1 / CELL) - Math.floor(x0 / CELL) + 1) *
      (Math.floor(y1 / CELL) - Math.floor(y0 / CELL) + 1);
    if (cells > this.grid.size) return { items: this.items, edges: this.edges };
    const found = new Set(this.long);
    for (let i = Math.floor(x0 / CELL); i <= x1 / CELL; ++i) {
      for (let j = Math.floor(y0 / CELL); j <= y1 / CELL; ++j) {
        for (const thing of this.grid.get(`${i},${j}`) ?? []) found.add(thing);
      }
    }
    const items = [],
      edges = [];
    for (const thing of found) (thing instanceof Item ? items : edges).push(thing);
    // Boxes before what is in them.
    return { items: items.sort((a, b) => b.w * b.h - a.w * a.h), edges };
  }

  /** The innermost item at a point; for an open box only where its head is. */
  at(x, y) {
    let found = null;
    for (const item of this.inside(x, y, x, y).items) {
      if (x < item.ax || y < item.ay || x > item.ax + item.w || y > item.ay + item.h) continue;
      if (item.open && y > item.ay + GAP.head) continue;
      if (!found || item.w * item.h < found.w * found.h) found = item;
    }
    return found;
  }
}

/** From the lower edge of an item to the upper edge of another, past what is between: curves of
 * x, y, two handles, x, y. */
function curvesOf({ from, to, again, ends: [a, b] }) {
  if (again) {
    // to the step before: round the right side, upwards
    const side = Math.max(from.ax + from.w, to.ax + to.w) + 22;
    return [
      [
        from.ax + from.w,
        from.ay + from.h / 2,
        side,
        from.ay + from.h / 2,
        side,
        to.ay + to.h / 2,
        to.ax + to.w,
        to.ay + to.h / 2,
      ],
    ];
  }
  const box = a.parent;
  const [, after] = a.lanes,
    [before] = b.lanes;
  if (before >= after - 1) return toOtherColumn(from, to, box, after, before);
  const points = [[from.ax + from.w / 2, from.ay + from.h]];
  // Out of a box, past what stands below in it: inside its right border.
  const low = a.ay + a.h,
    left = from.ay + from.h;
  if (a !== from && low - left > 70) points.push([a.ax + a.w - 7, left + GAP.row], [a.ax + a.w - 7, low]);
  for (const [x, above, below] of box.routes?.get(a)?.get(b) ?? []) {
    points.push([box.ax + x, box.ay + above], [box.ax + x, box.ay + below]);
  }
  if (b !== to && to.ay - b.ay > GAP.head + 70)
    points.push([b.ax + b.w - 7, b.ay], [b.ax + b.w - 7, to.ay - GAP.row]);
  points.push([to.ax + to.w / 2, to.ay]);
  return points.slice(1).map(([x1, y1], i) => {
    const [x0, y0] = points[i];
    const bend = y1 > y0 ? (y1 - y0) * 0.5 : 60;
    return [x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1];
  });
}

/** From a column to one further right: by the lane after it, over the top where there are columns between,
 * and by the lane before the other. */
function toOtherColumn(from, to, box, after, before) {
  const [x0, y0] = [from.ax + from.w / 2, from.ay + from.h];
  const [x1, y1] = [to.ax + to.w / 2, to.ay];
  const out = box.ax + after,
    into = box.ax + before;
  const curves = [[x0, y0, x0, y0 + 18, out, y0 + 18, out, y0 - 10]];
  let y = y0 - 10;
  if (into > out + 1) {
    const top = box.ay + (box.parent ? GAP.head : 0) + 4;
    const middle = (out + into) / 2;
    curves.push([out, y, out, y, out, top + 24, out, top + 24]);
    curves.push([out, top + 24, out, top, out, top, middle, top]);
    curves.push([middle, top, into, top, into, top, into, top + 24]);
    y = top + 24;
  }
  curves.push([into, y, into, y, into, y1 + 10, into, y1 + 10]);
  curves.push([into, y1 + 10, into, y1 - 18, x1, y1 - 18, x1, y1]);
  return curves;
}
