// Colour by a figure: memory, time, the norm of gradients. One hue from pale to strong, on a
// logarithmic scale, since figures of a graph span many powers of ten.

const RAMPS = {
  light: {
    bytes: [
      [235, 241, 253],
      [37, 84, 199],
    ],
    seconds: [
      [253, 243, 226],
      [196, 90, 6],
    ],
    forward: [
      [246, 236, 252],
      [124, 45, 168],
    ],
    norm: [
      [229, 246, 238],
      [4, 120, 87],
    ],
  },
  dark: {
    bytes: [
      [30, 39, 58],
      [92, 135, 245],
    ],
    seconds: [
      [50, 38, 24],
      [232, 140, 44],
    ],
    forward: [
      [42, 31, 52],
      [186, 120, 232],
    ],
    norm: [
      [22, 46, 40],
      [45, 187, 139],
    ],
  },
};

/** The range of the figures that are positive and finite; null if there is none. */
function rangeOf(values) {
  let low = Infinity,
    high = 0;
  for (const value of values) {
    if (!(value > 0) || !Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return high ? { low, high } : null;
}

class Colouring {
  constructor(figure, range) {
    this.figure = figure;
    this.range = range;
    const [from, to] = RAMPS[theme.name][figure];
    // Not more colours than one can tell apart; each is made once.
    this.steps = Array.from(
      { length: 25 },
      (_, i) => `rgb(${from.map((c, k) => Math.round(c + ((to[k] - c) * i) / 24)).join(" ")})`,
    );
    this.none = theme.colour("sheet");
    this.bad = theme.colour("bad");
    this.inks = {
      plain: [theme.colour("ink"), theme.colour("soft")],
      dark: ["#ffffff", "rgb(255 255 255 / 90%)"],
      bright: ["#10141b", "#10141b"],
    };
    this.inkOf = this.steps.map((step, i) =>
      i < 4 ? this.inks.plain : luminance(step) > 0.28 ? this.inks.bright : this.inks.dark,
    );
  }
  /** Where a figure is on the scale, from 0 to 1; null off it. */
  place(value) {
    if (!(value > 0) || !this.range) return null;
    const { low, high } = this.range;
    if (high === low) return 0.6;
    return Math.min(1, Math.max(0, Math.log(value / low) / Math.log(high / low)));
  }
  fill(value) {
    if (value == null || value === 0) return this.none;
    if (Number.isNaN(value) || value === Infinity) return this.bad;
    const place = this.place(value);
    return place === null ? this.none : this.steps[Math.round(place * 24)];
  }
  /** Inks that can be read on the colour of a figure: of names, and of what is smaller. */
  inksOn(value) {
    if (Number.isNaN(value) || value === Infinity) return this.inks.dark;
    const place = this.place(value);
    return place === null ? this.inks.plain : this.inkOf[Math.round(place * 24)];
  }
}

/** How bright a colour is, from 0 to 1 (WCAG). */
function luminance(rgb) {
  const [red, green, blue] = rgb.match(/\d+/g).map((c) => {
    const part = Number(c) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
