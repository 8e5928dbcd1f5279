// The graph as the page knows it: nodes, boxes, what is open, and which of it is in view.
//
// A node of a loop that is not unrolled is shown by the node of the newest step that stands for it.
// Everything that is drawn is an Item: a node, or a box with items.

class Item {
  constructor(parent) {
    this.parent = parent;
    this.x = this.y = this.w = this.h = 0; // relative to the parent, set by layout.js
  }
  *ancestors() {
    for (let box = this.parent; box; box = box.parent) yield box;
  }
}

class NodeItem extends Item {
  constructor(id, parent) {
    super(parent);
    this.id = id;
    this.chips = [];
  }
}

class BoxItem extends Item {
  constructor(kind, title, parent, count = 1) {
    super(parent);
    Object.assign(this, {
      kind,
      title,
      count,
      items: [],
      open: false,
      others: null,
      newest: null, // the nodes of the step that is shown, if some of them are in boxes
      unrolled: false,
      dirty: true,
    });
  }
}

class Model {
  constructor(data) {
    this.data = data;
    const { kind, label, many, total, bytes, shared, stands, seconds, forward, norm } = data.node;
    this.size = kind.length;
    this.stands = stands;
    this.nodes = kind.map((k, id) => {
      const [op, name, shape, dtype, file, line, module] = data.kinds[k];
      return {
        id,
        op,
        name,
        shape,
        dtype,
        file,
        line,
        module,
        label: label[id] ?? "",
        leaf: op === "leaf",
        bytes: bytes[id],
        shared: shared[id],
        many: many[id],
        inputs: [],
        users: [],
      };
    });
    for (let i = 0; i < data.edges.length; i += 2) {
      this.nodes[data.edges[i]].inputs.push(data.edges[i + 1]);
      this.nodes[data.edges[i + 1]].users.push(data.edges[i]);
    }
    // What a node shows while loops are folded: the sums over all it stands for.
    this.folded = { bytes: new Float64Array(this.size), many: new Float64Array(this.size) };
    this.own = { bytes: total };
    for (let id = 0; id < this.size; ++id) {
      this.folded.bytes[stands[id]] += total[id];
      this.folded.many[stands[id]] += many[id];
    }
    if (forward) {
      this.own.forward = forward.map((s) => s ?? 0);
      this.folded.forward = new Float64Array(this.size);
      for (let id = 0; id < this.size; ++id) this.folded.forward[stands[id]] += this.own.forward[id];
    }
    if (seconds) {
      this.own.seconds = seconds.map((s) => s ?? 0);
      this.own.norm = norm.map((v) => (v === null ? 0 : toNumber(v)));
      this.folded.seconds = new Float64Array(this.size);
      this.folded.norm = new Float64Array(this.size);
      for (let id = 0; id < this.size; ++id) {
        this.folded.seconds[stands[id]] += this.own.seconds[id];
        const value = this.own.norm[id],
          known = this.folded.norm[stands[id]];
        this.folded.norm[stands[id]] = Number.isNaN(value) || value > known ? value : known;
      }
    }
    this.items = new Array(this.size).fill(null);
    this.root = new BoxItem("root", data.title, null);
    this.root.open = true;
    this.addAll(data.tree, this.root);
    this.chooseLeaves();
  }

  addAll(tree, box) {
    for (const part of tree) {
      if (typeof part === "number") {
        box.items.push((this.items[part] = new NodeItem(part, box)));
        continue;
      }
      const inner = new BoxItem(part.kind, part.title, box, part.count);
      inner.others = part.others ?? null;
      inner.newest = part.newest ?? null;
      box.items.push(inner);
      this.addAll(part.items, inner);
    }
  }

  /** Parameters of models, leaves that many use, and leaves of which there are many, are shown beside each of
   * their users. */
  chooseLeaves() {
    const leaves = this.nodes.filter((n) => n.leaf);
    const uses = (n) => n.users.reduce((sum, user) => sum + this.nodes[user].many, 0);
    const parameters = new Set(this.data.node.parameters);
    this.chipped = new Set(
      leaves.filter((n) => leaves.length > 8 || parameters.has(n.id) || uses(n) > 3).map((n) => n.id),
    );
    const stays = (item) =>
      item instanceof NodeItem
        ? !this.chipped.has(item.id)
        : item.kind !== "composite" || item.items.length > 0;
    for (const box of this.root.items) if (box.kind === "composite") box.items = box.items.filter(stays);
    this.root.items = this.root.items.filter(stays);
  }

  // --- what is in view
  /** The items of an open box: for an unrolled loop a box for each step. */
  itemsOf(box) {
    if (!box.unrolled) return box.items;
    if (!box.steps) {
      const steps = [box.newest ?? [...this.below(box)].map((item) => item.id), ...box.others];
      box.steps = steps.map((ids, i) => {
        const name = box.kind === "loop" ? `step ${steps.length - i}` : `branch ${i + 1}`;
        const step = new BoxItem("step", `${name} of ${box.count}`, box);
        step.open = true;
        step.items = ids.map((id) => new NodeItem(id, step));
        return step;
      });
    }
    return box.steps;
  }
  /** All node items of a box, whatever is open. */
  *below(box) {
    const stack = [box];
    while (stack.length) {
      const top = stack.pop();
      for (const item of top.items) {
        if (item instanceof NodeItem) yield item;
        else stack.push(item);
      }
    }
  }
  /** The figures of an item: those of its node, or the sums of its box. */
  figure(item, name) {
    const unrolled = this.isUnrolled(item);
    const table = (unrolled ? this.own : this.folded)[name];
    if (!table) return null;
    if (item instanceof NodeItem) return table[item.id];
    if (item.figures?.[name] !== undefined && item.figures.unrolled === unrolled) return item.figures[name];
    let value = 0;
    for (const node of this.below(item)) {
      const own = table[node.id];
      if (name === "norm") value = Number.isNaN(own) || own > value ? own : value;
      else value += own;
    }
    item.figures = { ...item.figures, [name]: value, unrolled };
    return value;
  }
  isUnrolled(item) {
    for (let box = item.parent; box; box = box.parent) if (box.unrolled) return true;
    return false;
  }
  count(box) {
    if (box.kind === "step") return box.items.length;
    box.size ??= [...this.below(box)].reduce((sum, item) => sum + this.folded.many[item.id], 0);
    return box.size;
  }
  /** The items that nodes are shown by, for the boxes that are open now: one per node. */
  visible() {
    const found = new Array(this.size).fill(null);
    const mark = (box, shown) => {
      const items = this.itemsOf(box);
      for (const item of items) {
        if (item instanceof NodeItem) found[item.id] = shown ?? item;
        else mark(item, shown ?? (item.open ? null : item));
      }
    };
    mark(this.root, null);
    for (let id = 0; id < this.size; ++id) found[id] ??= found[this.stands[id]];
    return found;
  }
  /** Open what a node is in. */
  reveal(id) {
    for (const box of this.items[this.stands[id]]?.ancestors() ?? []) {
      if (!box.open) this.toggle(box, true);
    }
  }
  toggle(box, open = !box.open) {
    box.open = open;
    this.touch(box);
  }
  touch(box) {
    for (let at = box; at; at = at.parent) at.dirty = true;
  }
  boxes(kind = null) {
    const found = [];
    const stack = [this.root];
    while (stack.length) {
      for (const item of stack.pop().items) {
        if (!(item instanceof BoxItem)) continue;
        if (kind === null || item.kind === kind) found.push(item);
        stack.push(item);
      }
    }
    return found;
  }

  // --- questions about the graph
  /** All nodes on paths from one node back to another, whichever was computed later; empty if none. */
  between(a, b) {
    const [from, to] = a < b ? [a, b] : [b, a]; // newest first
    const reach = (start, next) => {
      const seen = new Set([start]),
        stack = [start];
      while (stack.length) {
        for (const id of next(this.nodes[stack.pop()])) {
          if (!seen.has(id)) {
            seen.add(id);
            stack.push(id);
          }
        }
      }
      return seen;
    };
    const below = reach(from, (n) => n.inputs),
      above = reach(to, (n) => n.users);
    return new Set([...below].filter((id) => above.has(id)));
  }
  title(id) {
    const node = this.nodes[id];
    return node.leaf ? node.label || "leaf" : node.op.replace(/^_+/, "");
  }
  /** The module that is a single node, by its own name: it has no box. */
  tag(id) {
    return this.data.node.tag[id] ?? "";
  }
  place(id) {
    const node = this.nodes[id];
    return node.file < 0 ? "" : `${this.data.code[node.file].name}:${node.line}`;
  }
  lineText(id) {
    const node = this.nodes[id];
    return node.file < 0 ? "" : (this.data.code[node.file].lines[node.line] ?? "").trim();
  }
}
