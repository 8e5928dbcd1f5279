// Numbers as people read them. JSON has no NaN and no infinities: they come as strings.

function toNumber(value) {
  if (typeof value !== "string") return value;
  return value === "nan" ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : Number(value);
}

function formatCount(n) {
  return n.toLocaleString("en-US");
}

function formatBytes(count) {
  if (count < 1000) return `${count} B`;
  let value = count;
  for (const unit of ["kB", "MB", "GB"]) {
    value /= 1000;
    if (value < 999.95) return `${value.toFixed(1)} ${unit}`;
  }
  return `${(value / 1000).toFixed(1)} TB`;
}

function formatSeconds(seconds) {
  if (seconds < 1e-3) return `${(seconds * 1e6).toPrecision(3)} µs`;
  if (seconds < 1) return `${(seconds * 1e3).toPrecision(3)} ms`;
  return `${seconds.toPrecision(3)} s`;
}

function formatNumber(value) {
  const number = toNumber(value);
  if (typeof number !== "number") return String(value);
  // What is not a number in JavaScript may be a complex one.
  if (Number.isNaN(number)) return value === "nan" || typeof value === "number" ? "NaN" : value;
  if (!Number.isFinite(number)) return number > 0 ? "∞" : "−∞";
  const size = Math.abs(number);
  const text =
    size !== 0 && (size < 1e-3 || size >= 1e5) ? number.toExponential(2) : String(+number.toPrecision(4));
  return text.replace("-", "−");
}
