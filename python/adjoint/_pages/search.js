// Finding nodes by words: op, name, line, text of the line, shape, dtype, module. All words must fit. A word
// that is the name of an op means that op, not lines in which it occurs.

class Search {
  constructor(model) {
    this.model = model;
    // Nodes of one kind share all but their label.
    this.texts = model.data.kinds.map(([op, name, shape, dtype, file, line, module]) => {
      const code = file < 0 ? null : model.data.code[file];
      return [
        op,
        name,
        shape,
        shape.replaceAll(" ", ""),
        dtype,
        code ? `${code.name}:${line}` : "",
        code?.lines[line] ?? "",
        module,
      ]
        .join("\n")
        .toLowerCase();
    });
  }
  /** The nodes that fit, newest first. */
  find(query) {
    const words = query.toLowerCase().match(/\[[^\]]*\]?|\S+/g) ?? [];
    if (!words.length) return [];
    const { kind } = this.model.data.node;
    const ops = this.model.data.kinds.map(([op]) => op.toLowerCase());
    const known = new Set(ops);
    const isIn = (word, k) => (known.has(word) ? ops[k] === word : this.texts[k].includes(word));
    const fits = new Map(ops.map((_, k) => [k, words.filter((word) => !isIn(word, k))]));
    return this.model.nodes
      .filter((node) => {
        const missing = fits.get(kind[node.id]);
        return (
          !missing.length || (node.label && missing.every((word) => node.label.toLowerCase().includes(word)))
        );
      })
      .map((node) => node.id);
  }
}
