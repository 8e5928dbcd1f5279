// Light or dark: as the system says, until somebody chooses.

const theme = {
  listeners: [],
  get name() {
    return document.documentElement.dataset.theme;
  },
  set(name) {
    document.documentElement.dataset.theme = name;
    for (const listener of this.listeners) listener();
  },
  toggle() {
    this.set(this.name === "dark" ? "light" : "dark");
  },
  /** The value of a colour of style.css, for canvas and SVG. */
  colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  },
};

{
  const dark = matchMedia("(prefers-color-scheme: dark)");
  theme.set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => theme.set(dark.matches ? "dark" : "light"));
}
