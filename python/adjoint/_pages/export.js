// The whole sheet as a file, or on paper.

function svgOf(page) {
  const { painter, scene } = page;
  const pen = new SvgPen();
  painter.draw(pen, scene, scene, 1, page.look());
  return pen.document(scene.width, scene.height, painter.ink.paper);
}

function fileName(page, ending) {
  const name = page.model.data.title.replace(/[^\w.-]+/g, "-").replace(/^-|-$/g, "");
  return `${name || "graph"}.${ending}`;
}

function saveSvg(page) {
  download(fileName(page, "svg"), new Blob([svgOf(page)], { type: "image/svg+xml" }));
}

function savePng(page) {
  const { painter, scene } = page;
  const scale = Math.min(2, 8192 / Math.max(scene.width, scene.height)); // what browsers take as a canvas
  const canvas = make("canvas", {
    width: Math.ceil(scene.width * scale),
    height: Math.ceil(scene.height * scale),
  });
  const context = canvas.getContext("2d");
  context.fillStyle = painter.ink.paper;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(scale, scale);
  painter.draw(new CanvasPen(context), scene, scene, scale, page.look());
  canvas.toBlob((blob) => download(fileName(page, "png"), blob));
}

/** Paper is white, whatever the theme. */
function preparePrint(page) {
  const before = theme.name;
  theme.set("light");
  document.getElementById("print").innerHTML = svgOf(page);
  theme.set(before);
}
