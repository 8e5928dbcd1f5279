// The keyboard. What each key does stands in the panel, too (keyList in details.js).

function pressKey(page, event) {
  const { target, key } = event;
  if (target instanceof HTMLInputElement && target.type !== "range") return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  // A slider moves by arrows; a button that has the focus is pressed by these two.
  if (target.type === "range" && key.startsWith("Arrow")) return;
  if (target instanceof HTMLButtonElement && (key === "Enter" || key === " ")) return;
  const action = actionsOf(page)[key];
  if (!action) return;
  event.preventDefault();
  action();
}

function actionsOf(page) {
  const { selected, camera, player } = page;
  return {
    "/": () => page.input.focus(),
    f: () => page.seeAll(),
    t: () => theme.toggle(),
    "+": () => camera.zoom(1.25),
    "=": () => camera.zoom(1.25),
    "-": () => camera.zoom(0.8),
    o: () => page.openAll(true),
    c: () => page.openAll(false),
    1: () => page.pressColour("bytes"),
    2: () => page.pressColour("seconds"),
    3: () => page.pressColour("norm"),
    4: () => page.pressColour("forward"),
    p: () => selected instanceof NodeItem && page.startPath(selected.id),
    Enter: () => selected instanceof BoxItem && page.toggle(selected),
    Escape: () => page.letGo(),
    ",": () => player?.go(player.at - 1),
    ".": () => player?.go(player.at + 1),
    " ": () => player?.toggle(),
    ArrowDown: () => page.choose(along(page, "from", "to")),
    ArrowUp: () => page.choose(along(page, "to", "from")),
    ArrowLeft: () => page.choose(beside(page, -1)),
    ArrowRight: () => page.choose(beside(page, 1)),
  };
}

/** The item at the other end of an edge: down to an input, up to a user; at first, the output. */
function along({ scene, selected, model }, start, end) {
  if (!selected) return scene.shown[model.data.outputs[0]];
  return scene.edges.find((edge) => edge[start] === selected && !edge.again)?.[end];
}

/** The next item in the same row. */
function beside({ scene, selected }, direction) {
  if (!selected) return null;
  const middle = (item) => item.ay + item.h / 2;
  const row = scene.items
    .filter((item) => item.parent === selected.parent && Math.abs(middle(item) - middle(selected)) < 12)
    .sort((a, b) => a.ax - b.ax);
  return row[row.indexOf(selected) + direction];
}
