// Two pens that draw the same things: on a canvas, and as SVG.

class CanvasPen {
  constructor(context) {
    this.context = context;
  }
  box(x, y, w, h, { fill, stroke, radius = 6, width = 1, dash = [] }) {
    const c = this.context;
    c.beginPath();
    c.roundRect(x, y, w, h, radius);
    if (fill) {
      c.fillStyle = fill;
      c.fill();
    }
    if (stroke) {
      c.strokeStyle = stroke;
      c.lineWidth = width;
      c.setLineDash(dash);
      c.stroke();
    }
  }
  /** Many boxes of one colour, without borders. */
  boxes(list, fill) {
    const c = this.context;
    c.fillStyle = fill;
    for (const item of list) c.fillRect(item.ax, item.ay, item.w, item.h);
  }
  /** Many curves in one stroke: a curve by itself is what is slow. */
  curves(list, { stroke, width = 1, dash = [], straight = false }) {
    const c = this.context;
    c.beginPath();
    for (const p of list) {
      c.moveTo(p[0], p[1]);
      if (straight) c.lineTo(p[6], p[7]);
      else c.bezierCurveTo(p[2], p[3], p[4], p[5], p[6], p[7]);
    }
    c.strokeStyle = stroke;
    c.lineWidth = width;
    c.setLineDash(dash);
    c.stroke();
  }
  heads(list, { fill }) {
    const c = this.context;
    c.beginPath();
    for (const [, , , , d, e, x, y] of list) {
      const down = Math.abs(y - e) >= Math.abs(x - d);
      c.moveTo(x, y);
      if (down) {
        c.lineTo(x - 3.5, y - 7);
        c.lineTo(x + 3.5, y - 7);
      } else {
        c.lineTo(x + 7, y - 3.5);
        c.lineTo(x + 7, y + 3.5);
      }
      c.closePath();
    }
    c.fillStyle = fill;
    c.fill();
  }
  width(text, size, weight = 400) {
    this.context.font = `${weight} ${size}px ${FONTS.sans}`;
    return this.context.measureText(text).width;
  }
  text(text, x, y, { fill, size = 12, weight = 400, mono = false, align = "left", most = Infinity, halo }) {
    const c = this.context;
    c.font = `${weight} ${size}px ${mono ? FONTS.mono : FONTS.sans}`;
    c.fillStyle = fill;
    c.textAlign = align;
    c.textBaseline = "middle";
    const shown = shortened(c, text, most);
    if (halo) {
      c.strokeStyle = halo;
      c.lineWidth = HALO;
      c.lineJoin = "round";
      c.setLineDash([]);
      c.strokeText(shown, x, y);
    }
    c.fillText(shown, x, y);
  }
}

const HALO = 5; // around text that edges may pass behind

const FONTS = {
  sans: 'system-ui, -apple-system, "Segoe UI", Roboto, Inter, "Noto Sans", "DejaVu Sans", sans-serif',
  mono: 'ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace',
};

function shortened(context, text, most) {
  if (most === Infinity || context.measureText(text).width <= most) return text;
  let low = 0,
    high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= most) low = middle;
    else high = middle - 1;
  }
  return `${text.slice(0, low)}…`;
}

class SvgPen {
  constructor() {
    this.parts = [];
    this.context = document.createElement("canvas").getContext("2d"); // to measure text
    this.width = CanvasPen.prototype.width;
  }
  box(x, y, width, height, { fill = "none", stroke, radius = 6, width: thickness = 1, dash = [] }) {
    this.add("rect", { x, y, width, height, rx: radius, fill, ...this.line(stroke, thickness, dash) });
  }
  curves(list, { stroke, width = 1, dash = [] }) {
    const d = list.map((p) => `M${r(p[0])} ${r(p[1])}C${p.slice(2).map(r).join(" ")}`).join("");
    if (d) this.add("path", { d, fill: "none", ...this.line(stroke, width, dash) });
  }
  heads(list, { fill }) {
    const head = ([, , , , d, e, x, y]) =>
      `M${r(x)} ${r(y)}` + (Math.abs(y - e) >= Math.abs(x - d) ? "l-3.5-7h7z" : "l7-3.5v7z");
    if (list.length) this.add("path", { d: list.map(head).join(""), fill });
  }
  text(text, x, y, { fill, size = 12, weight = 400, mono = false, align = "left", most = Infinity, halo }) {
    const family = mono ? FONTS.mono : FONTS.sans;
    this.context.font = `${weight} ${size}px ${family}`;
    const place = {
      x,
      y,
      "text-anchor": { left: "start", center: "middle", right: "end" }[align],
      "dominant-baseline": "central",
    };
    const font = { "font-family": family, "font-size": size, "font-weight": weight };
    const around = halo && { "paint-order": "stroke", "stroke-linejoin": "round", ...this.line(halo, HALO, []) };
    this.add("text", { ...place, ...font, ...around, fill }, shortened(this.context, text, most));
  }
  line(stroke, width, dash) {
    if (!stroke) return {};
    return { stroke, "stroke-width": width, ...(dash.length ? { "stroke-dasharray": dash.join(" ") } : {}) };
  }
  add(tag, attributes, text = "") {
    const written = Object.entries(attributes).map(
      ([name, value]) => ` ${name}="${typeof value === "number" ? r(value) : escapeXml(value)}"`,
    );
    this.parts.push(`<${tag}${written.join("")}>${escapeXml(text)}</${tag}>`);
  }
  document(width, height, background) {
    const [w, h] = [r(width), r(height)];
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}">` +
      `<rect width="100%" height="100%" fill="${background}"/>${this.parts.join("")}</svg>`
    );
  }
}

const r = (x) => Math.round(x * 10) / 10;
const escapeXml = (text) =>
  text.replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
