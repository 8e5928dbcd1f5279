// Finding nodes by words: op, name, line, text of the line, shape, dtype, module. All words must fit.

class Search {
  constructor(model) {
    this.model = model;
    // Nodes of one kind share all but their label.
    this.texts = model.data.kinds.map(([op, name, shape, dtype, file, line, module]) => {
      const code = file < 0 ? null : model.data.code[file];
      return [op, name, shape, shape.replaceAll(" ", ""), dtype, code ? `${code.name}:${line}` : "", code?.lines[line] ?? "", module].join("\n").toLowerCase();
    });
  }
  /** The nodes that fit, newest first. */
  find(query) {
    const words = query.toLowerCase().match(/\[[^\]]*\]?|\S+/g) ?? [];
    if (!words.length) return [];
    const { kind } = this.model.data.node;
    const fits = new Map(this.texts.map((text, k) => [k, words.filter((word) => !text.includes(word))]));
    return this.model.nodes.filter((node) => {
      const missing = fits.get(kind[node.id]);
      return !missing.length || (node.label && missing.every((word) => node.label.toLowerCase().includes(word)));
    }).map((node) => node.id);
  }
}
