// Which part of the sheet is seen: drag to move, wheel to zoom, and moving there by itself.

const LEGEND = 60; // at the foot of the sheet, over what is drawn

class Camera {
  constructor(canvas, changed) {
    Object.assign(this, { canvas, changed, x: 0, y: 0, scale: 1 });
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const step = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
        if (event.shiftKey) this.moveBy(step, 0);
        else this.zoom(Math.exp(-step * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("pointerdown", (event) => {
      this.dragged = 0;
      canvas.setPointerCapture(event.pointerId);
      this.last = [event.clientX, event.clientY];
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.last || !event.buttons) return;
      const [x, y] = this.last;
      this.dragged += Math.abs(event.clientX - x) + Math.abs(event.clientY - y);
      this.last = [event.clientX, event.clientY];
      this.moveBy(x - event.clientX, y - event.clientY);
    });
    canvas.addEventListener("pointerup", () => {
      this.last = null;
    });
  }
  get size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }
  moveBy(dx, dy) {
    this.x += dx / this.scale;
    this.y += dy / this.scale;
    this.changed();
  }
  zoom(factor, px = this.size[0] / 2, py = this.size[1] / 2) {
    const scale = Math.min(3, Math.max(0.004, this.scale * factor));
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.changed();
  }
  /** All of a sheet, if it can be read; otherwise what is below, and beside, its output. */
  fit(sheet, output, least = 0) {
    const [width, height] = [this.size[0] - 48, this.size[1] - 24 - LEGEND];
    const scale = (this.scale = Math.min(
      1.25,
      Math.max(least, Math.min(width / sheet.width, height / sheet.height)),
    ));
    const middle = sheet.width * scale <= width ? sheet.width / 2 : output.ax + output.w / 2;
    this.x = middle - this.size[0] / 2 / scale;
    if (sheet.height * scale < height) this.y = sheet.height / 2 - (24 + height / 2) / scale;
    else this.y = -24 / scale;
    this.changed();
  }
  centre(item) {
    const [width, height] = this.size;
    this.scale = Math.max(this.scale, 0.7);
    this.x = item.ax + item.w / 2 - width / 2 / this.scale;
    this.y = item.ay + Math.min(item.h, 60) / 2 - height / 2 / this.scale;
    this.changed();
  }
  /** Whether an item is well inside what is seen. */
  shows(item) {
    const [width, height] = this.size.map((s) => s / this.scale);
    return (
      item.ax > this.x &&
      item.ay > this.y &&
      item.ax + Math.min(item.w, 240) < this.x + width &&
      item.ay + Math.min(item.h, 60) < this.y + height
    );
  }
  toSheet(px, py) {
    return [this.x + px / this.scale, this.y + py / this.scale];
  }
}
