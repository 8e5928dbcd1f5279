// Where things stand: a layered layout, box by box.
//
// Each box is laid out by itself, its items as sheets of known size: rows by the longest path from
// the top (the output; backward runs downwards), order inside rows by barycentres, positions by least
// squares without overlaps. Long thin layouts are broken into columns, like text. A box whose insides
// did not change is not laid out again.

const GAP = { row: 34, column: 26, pad: 16, head: 34, break: 90 };
const TALL = 3000; // what is taller than this, and narrow, is broken into columns
const LONGEST = 10; // rows that an edge gets places of its own in; longer ones run across

/** Lay out everything that is open, innermost first. */
function layOut(model, edges, measure) {
  const inside = groupEdges(edges);
  const visit = (box) => {
    const items = model.itemsOf(box);
    for (const item of items) {
      if (item instanceof NodeItem) [item.w, item.h] = measure(item);
      else if (item.open) visit(item);
      else [item.w, item.h] = measure(item);
    }
    if (box.dirty) placeItems(box, items, inside.get(box) ?? [], measure.head(box));
    box.dirty = false;
  };
  visit(model.root);
}

/** Each edge belongs to the innermost box around both ends, as an edge between two of its items. */
function groupEdges(edges) {
  const depth = (item) => {
    let d = 0;
    for (const _ of item.ancestors()) ++d;
    return d;
  };
  const depths = new Map();
  const depthOf = (item) => depths.get(item) ?? (depths.set(item, depth(item)), depths.get(item));
  const inside = new Map();
  for (const edge of edges) {
    let { from: a, to: b } = edge,
      da = depthOf(a),
      db = depthOf(b);
    while (a.parent !== b.parent) {
      if (da >= db) {
        a = a.parent;
        --da;
      } else {
        b = b.parent;
        --db;
      }
    }
    edge.ends = [a, b];
    if (a === b) continue;
    if (!inside.has(a.parent)) inside.set(a.parent, []);
    inside.get(a.parent).push([a, b]);
  }
  return inside;
}

function placeItems(box, items, pairs, least) {
  const cells = toCells(items, pairs);
  rank(cells);
  const routes = [];
  const rows = toRows(cells, routes);
  order(rows);
  position(rows);
  stack(box, rows);
  const more = Math.max(0, least - box.w); // the head of a box wants to be read
  for (const item of items) item.x += more / 2;
  box.w += more;
  setRoutes(box, routes, more / 2);
}

/** Where long edges pass each row, from its upper to its lower end: by the items they join. */
function setRoutes(box, routes, shift) {
  box.routes = new Map();
  for (const { from, to, bends } of routes) {
    if (bends.some((bend) => bend.column !== from.column) || to.column !== from.column) continue;
    if (!box.routes.has(from.item)) box.routes.set(from.item, new Map());
    box.routes.get(from.item).set(
      to.item,
      bends.map((bend) => [bend.px + shift, bend.above, bend.below]),
    );
  }
}

// A cell is an item on its way to a place, or a bend of a long edge.
function toCells(items, pairs) {
  const cells = items.map((item) => ({
    item,
    w: item.w,
    h: item.h,
    up: [],
    down: [],
    row: 0,
    x: 0,
    key: ageOf(item),
  }));
  const cellOf = new Map(items.map((item, i) => [item, cells[i]]));
  const seen = new Set();
  for (const [a, b] of pairs) {
    const from = cellOf.get(a),
      to = cellOf.get(b);
    // Against the order of age lead only edges from one step of a loop to the step before.
    if (from === to || from.key > to.key) continue;
    const name = from.key * 2 ** 26 + to.key;
    if (seen.has(name)) continue;
    seen.add(name);
    from.down.push(to);
    to.up.push(from);
  }
  return cells;
}

/** The number of the newest node of an item: nodes are numbered newest first. */
function ageOf(item) {
  if (item instanceof NodeItem) return item.id;
  if (item.age === undefined) {
    item.age = item.items.reduce((least, inner) => Math.min(least, ageOf(inner)), Infinity);
  }
  return item.age;
}

function rank(cells) {
  const sorted = [...cells].sort((a, b) => a.key - b.key);
  for (const cell of sorted) {
    for (const to of cell.down) to.row = Math.max(to.row, cell.row + 1);
  }
}

/** Rows of cells; edges over several rows get a bend in each, which `routes` lists. */
function toRows(cells, routes) {
  const rows = [];
  const put = (cell) => (rows[cell.row] ??= []).push(cell);
  // In the order of a walk from the top, so that what belongs together starts out together.
  const seen = new Set();
  for (const top of [...cells].sort((a, b) => a.row - b.row || a.key - b.key)) {
    const stack = [top];
    while (stack.length) {
      const cell = stack.pop();
      if (seen.has(cell)) continue;
      seen.add(cell);
      put(cell);
      stack.push(...[...cell.down].reverse());
    }
  }
  let bends = 4 * cells.length + 200; // never so many that they are what takes time
  for (const cell of cells) {
    cell.down = cell.down.map((to) => {
      const span = to.row - cell.row;
      if (span < 2 || span > LONGEST || bends < span) return to;
      bends -= span;
      let above = cell,
        first = null;
      const route = { from: cell, to, bends: [] };
      routes.push(route);
      for (let row = cell.row + 1; row < to.row; ++row) {
        const bend = { item: null, w: 8, h: 0, up: [above], down: [], row, x: 0, key: to.key };
        first ??= bend;
        route.bends.push(bend);
        if (above !== cell) above.down.push(bend);
        put(bend);
        above = bend;
      }
      above.down.push(to);
      to.up[to.up.indexOf(cell)] = above;
      return first;
    });
  }
  return rows;
}

/** Fewer crossings: each cell goes to the middle of those it is joined to, up and down in turn. */
function order(rows) {
  const sweeps = rows.length * 8 > 40_000 ? 2 : 6;
  for (const row of rows)
    row.forEach((cell, i) => {
      cell.at = i;
    });
  for (let sweep = 0; sweep < sweeps; ++sweep) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      if (row.length < 2) continue;
      for (const cell of row) {
        const near = cell[side].filter((other) => Math.abs(other.row - cell.row) === 1);
        cell.pull = near.length ? near.reduce((sum, other) => sum + other.at, 0) / near.length : cell.at;
      }
      row.sort((a, b) => a.pull - b.pull || a.at - b.at);
      row.forEach((cell, i) => {
        cell.at = i;
      });
    }
  }
}

/** Positions across: near those a cell is joined to, in order, without overlaps. */
function position(rows) {
  for (const row of rows) {
    let x = 0;
    for (const cell of row) {
      cell.x = x + cell.w / 2;
      x += cell.w + GAP.column;
    }
    for (const cell of row) cell.x -= x / 2;
  }
  for (let sweep = 0; sweep < 6; ++sweep) {
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wanted = row.map((cell) => {
        const near = sweep === 0 ? cell.up : sweep === 1 ? cell.down : [...cell.up, ...cell.down];
        return near.length ? near.reduce((sum, other) => sum + other.x, 0) / near.length : cell.x;
      });
      spread(row, wanted);
    }
  }
}

/** The places nearest to those wanted (least squares) that keep order and distances: blocks of cells
 * that touch are merged until none overlap. */
function spread(row, wanted) {
  const blocks = [];
  let offset = 0;
  row.forEach((cell, i) => {
    if (i) offset += (row[i - 1].w + cell.w) / 2 + GAP.column;
    cell.offset = offset;
    // A bend would rather be straight than an item in the middle.
    const weight = cell.item ? 1 : 4;
    blocks.push({ sum: (wanted[i] - offset) * weight, weight, count: 1 });
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1],
        before = blocks[blocks.length - 2];
      if (before.sum / before.weight < last.sum / last.weight) break;
      before.sum += last.sum;
      before.weight += last.weight;
      before.count += last.count;
      blocks.pop();
    }
  });
  let i = 0;
  for (const block of blocks) {
    for (let k = 0; k < block.count; ++k, ++i) row[i].x = block.sum / block.weight + row[i].offset;
  }
}

/** Rows below one another, in columns where they would be too long; then the size of the box. */
function stack(box, rows) {
  const heights = rows.map((row) => row.reduce((most, cell) => Math.max(most, cell.h), 0) + GAP.row);
  const whole = heights.reduce((sum, h) => sum + h, 0);
  let left = Infinity,
    right = -Infinity;
  for (const row of rows) {
    for (const cell of row) {
      left = Math.min(left, cell.x - cell.w / 2);
      right = Math.max(right, cell.x + cell.w / 2);
    }
  }
  const width = Math.max(1, right - left);
  const columns =
    rows.length > 3 && whole > Math.max(TALL, 3 * width)
      ? Math.max(1, Math.round(Math.sqrt((1.7 * whole) / (width + GAP.break))))
      : 1;
  const limit = whole / columns;
  const top = box.parent ? GAP.head : 0;
  let x = GAP.pad,
    y = top + GAP.pad,
    bottom = y,
    from = 0,
    used = 0;
  for (let to = 1; to <= rows.length; ++to) {
    used += heights[to - 1];
    if (to < rows.length && used < limit) continue;
    used = 0;
    const part = rows.slice(from, to);
    let near = Infinity,
      far = -Infinity;
    for (const cell of part.flat()) {
      near = Math.min(near, cell.x - cell.w / 2);
      far = Math.max(far, cell.x + cell.w / 2);
    }
    y = top + GAP.pad;
    part.forEach((row, i) => {
      const height = heights[from + i];
      for (const cell of row) {
        cell.column = from;
        if (cell.item) {
          cell.item.x = x + cell.x - near - cell.w / 2;
          // Between the columns there is room for edges: before this one, and after it.
          cell.item.lanes = [x - GAP.break / 2, x + far - near + GAP.break / 2];
          cell.item.y = y + (height - GAP.row - cell.h) / 2;
        } else {
          [cell.px, cell.above, cell.below] = [x + cell.x - near, y, y + height - GAP.row];
        }
      }
      y += height;
    });
    bottom = Math.max(bottom, y - GAP.row);
    x += far - near + GAP.break;
    from = to;
  }
  box.w = x - GAP.break + GAP.pad;
  box.h = bottom + GAP.pad;
}
